# SPDX-License-Identifier: Apache-2.0
"""The table of LAPACK targets: operands, results, and the arguments of the LAPACK routine.

There is one row per routine; the adapter's code and the registry follow from it. An argument is a
word:

* `@uplo`: the character attribute `uplo`; `!left:LR`: a bool attribute, as one of two characters
* `#low`: the integer attribute `low`
* `=n`, `=5*k`, `=max(1,m)`: a 32-bit integer; `^m` is `=max(1,m)`, a leading dimension
* `x_out`: this matrix of the batch, of the operand or result with that name; `x_out+1` one element
  further; `a`: one that `scratch` declares
* `work`, `rwork`, `iwork` and their lengths `lwork`, `lrwork`, `liwork`: as LAPACK asks for
* `rwork[2*n]`: a workspace of that many elements; it has no length argument
* `info`: the result `info`, or memory that nobody reads; `null`; `one`

In an expression `x.rows`, `x.cols` and `tau.last` are dimensions (as in XLA, of the logical shape;
matrices lie column-major), `m`, `n`, `k` those of the routine's matrix and the lesser of both.

Source: jaxlib/cpu/lapack_kernels.cc, jax/_src/lax/linalg.py (0.10.2).
"""

from __future__ import annotations

from ingot.support.records import fresh, record


@record
class Routine:
    """One row.

    Attributes:
        name: the name of the real LAPACK routine without its type's letter.
        operands: names of the operands.
        results: names of the results; `x_out=x` begins as a copy of the operand `x`.
        arguments: LAPACK's arguments.
        complex_name: the name of the routine on complex numbers, if it differs.
        complex_arguments: its arguments, if they differ.
        complex_results: its results, if they differ.
        matrix: operand whose last two dimensions are `m` and `n` and the others the batch.
        scratch: `a=x`: memory as large as one matrix of operand `x`; with `a:=x` its copy.
        complex_scratch: that of the complex routine.
        finite: a name; the routine runs if all of it is finite, otherwise `info` is -4: on
            infinities some do not return.
        unused: result -> attribute; the result is zero if the attribute is `N`.
        unpack: (scratch, result): eigenvectors as LAPACK packs conjugate pairs -> complex.
        refuses: attribute -> character that is not supported.
        workspace: elements that it counts in 32 bits when vectors are wanted, if those are many.
        complex_workspace: that of the complex routine.
        is_blas: whether the function is BLAS.
        is_own: whether Ingot has code of its own for it (`vectors`): OpenBLAS gives the smallest
            exchange of rows to several threads, and waits for them where CPUs are busy.
        one_thread: matrices of up to this many rows or columns run in one thread, as OpenBLAS's
            threads gain nothing. On two CPUs its two threads took this many times as long as one:
            QR of 500x100 4.6, 2000x600 1.46, 600x600 1.49, 800x800 1.26, 1200x1200 1.03; singular
            values of 500x100 2.8, 2000x600 1.2, 600x600 1.02, 1200x1200 0.74; LU of 800x800 1.0,
            1200x1200 0.85; Cholesky factors of 800x800 1.1, 1200x1200 0.92; eigenvalues of
            Hermitian matrices 400x400 0.99, 600x600 0.9; triangular solves 300x300 0.8 (f32,
            scipy-openblas 0.3, Sapphire Rapids, 2026-12-01). Where CPUs are busy they cost a
            hundredfold (the Schur form of 200x200: 1.2 s).
    """

    name: str
    operands: str
    results: str
    arguments: str
    complex_name: str = ""
    complex_arguments: str = ""
    complex_results: str = ""
    matrix: str = "x"
    scratch: str = ""
    complex_scratch: str = ""
    finite: str = ""
    unused: dict[str, str] = fresh(factory=dict)
    unpack: tuple[tuple[str, str], ...] = ()
    refuses: dict[str, str] = fresh(factory=dict)
    workspace: str = ""
    complex_workspace: str = ""
    is_blas: bool = False
    is_own: bool = False
    one_thread: int = 400


_OF_QR = 1000
"""`one_thread` of routines that multiply by reflectors, most of them one by one."""

ROUTINES = (
    Routine(
        "trsm", "x y", "y_out=y", matrix="y", is_blas=True,
        arguments="@side @uplo @trans_x @diag =m =n one x ^x.rows y_out ^m", one_thread=200,
    ),
    Routine("getrf", "x", "x_out=x ipiv info", "=m =n x_out ^m ipiv info", one_thread=800),
    Routine(
        "geqrf", "x", "x_out=x tau", "=m =n x_out ^m tau work lwork info", one_thread=_OF_QR,
    ),
    Routine(
        "geqp3", "x jpvt", "x_out=x jpvt_out=jpvt tau",
        "=m =n x_out ^m jpvt_out tau work lwork info",
        complex_arguments="=m =n x_out ^m jpvt_out tau work lwork rwork[2*n] info",
        one_thread=_OF_QR,
    ),
    Routine(
        "orgqr", "x tau", "x_out=x", complex_name="ungqr",
        arguments="=m =n =tau.last x_out ^m tau work lwork info", one_thread=_OF_QR,
    ),
    Routine(
        "ormqr", "a tau c", "c_out=c", complex_name="unmqr", matrix="c",
        arguments="!left:LR !transpose:TN =m =n =tau.last a ^a.rows tau c_out ^m work lwork info",
        complex_arguments=(
            "!left:LR !transpose:CN =m =n =tau.last a ^a.rows tau c_out ^m work lwork info"
        ),
        one_thread=_OF_QR,
    ),
    Routine("potrf", "x", "x_out=x info", "@uplo =m x_out ^m info", one_thread=1000),
    Routine(
        "gesdd", "x", "x_out=x s u vt info",
        "@mode =m =n x_out ^m s u ^m vt ^vt.rows work lwork iwork[8*k] info",
        complex_arguments=(
            "@mode =m =n x_out ^m s u ^m vt ^vt.rows work lwork "
            "rwork[max(5*k*k+7*k,2*max(m,n)*k+2*k*k+k)] iwork[8*k] info"
        ),
        unused={"u": "mode", "vt": "mode"}, refuses={"mode": "O"}, finite="x_out",
        workspace="4*k*k+7*k+max(m,n)", complex_workspace="2*k*k+3*k+max(m,n)", one_thread=_OF_QR,
    ),
    Routine(
        "gesvd", "x", "x_out=x s u vt info",
        "@mode @mode =m =n x_out ^m s u ^m vt ^vt.rows work lwork info",
        complex_arguments=(
            "@mode @mode =m =n x_out ^m s u ^m vt ^vt.rows work lwork rwork[5*k] info"
        ),
        unused={"u": "mode", "vt": "mode"}, refuses={"mode": "O"}, finite="x_out",
        one_thread=_OF_QR,
    ),
    Routine(
        "syevd", "x", "x_out=x w info", complex_name="heevd",
        arguments="@mode @uplo =n x_out ^n w work lwork iwork liwork info",
        complex_arguments="@mode @uplo =n x_out ^n w work lwork rwork lrwork iwork liwork info",
        workspace="2*n*n+6*n+1", complex_workspace="2*n*n+5*n+1",
    ),
    Routine(
        "geev", "x", "wr wi vl vr info",
        "@compute_left @compute_right =n a ^n wr wi left ^n right ^n work lwork info",
        complex_results="w vl vr info",
        complex_arguments=(
            "@compute_left @compute_right =n a ^n w vl ^n vr ^n work lwork rwork[2*n] info"
        ),
        scratch="a:=x left=x right=x", complex_scratch="a:=x", finite="a",
        unused={"vl": "compute_left", "vr": "compute_right"},
        unpack=(("left", "vl"), ("right", "vr")),
    ),
    Routine(
        "gees", "x", "x_out=x vs wr wi selected info",
        "@mode @sort null =n x_out ^n selected wr wi vs ^n work lwork null info",
        complex_results="x_out=x vs w selected info",
        complex_arguments=(
            "@mode @sort null =n x_out ^n selected w vs ^n work lwork rwork[n] null info"
        ),
        unused={"vs": "mode"}, refuses={"sort": "S"},
    ),
    Routine("gehrd", "x", "x_out=x tau info", "=n #low #high x_out ^m tau work lwork info"),
    Routine(
        "sytrd", "x", "x_out=x d e tau info", complex_name="hetrd",
        arguments="@uplo =n x_out ^m d e tau work lwork info",
    ),
    Routine(
        "gtsv", "dl d du b", "dl_out=dl d_out=d du_out=du b_out=b info", matrix="b",
        arguments="=m =n dl_out+1 d_out du_out b_out ^m info",
    ),
    # These two are not JAX's: A X + X B = C of triangles A, B; a factorization's row exchanges.
    Routine(
        "trsyl", "a b c", "c_out=c scale info", matrix="c",
        arguments="@trans_a @trans_b #sign =m =n a ^m b ^n c_out ^m scale info",
    ),
    Routine("laswp", "x ipiv", "x_out=x", "@order x_out ipiv", is_own=True),
)  # fmt: skip
"""Every LAPACK routine that JAX calls on CPU, and those that our lowerings call beside them."""
