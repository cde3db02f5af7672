# SPDX-License-Identifier: Apache-2.0
"""Which TensorFlow ops are compiled, and the family of rules that each belongs to.

A family is a module of `lowering` with a `RULES` table from op type to rule. It is imported when a
program has one of its ops: most programs need a few of the families, and one that is found on the
disk needs none.

Invariant: the ops of a family here are the rows of its table; a test compares them.
"""

from __future__ import annotations

FAMILIES = {
    "activation": """
        Elu EluGrad InTopK InTopKV2 L2Loss LeakyRelu LeakyReluGrad LogSoftmax Relu Relu6
        Relu6Grad ReluGrad Selu SeluGrad Softmax SoftmaxCrossEntropyWithLogits
        SparseSoftmaxCrossEntropyWithLogits
    """,
    "banded": "BandedTriangularSolve",
    "binary": """
        Add AddN AddV2 ApproximateEqual Atan2 BitwiseAnd BitwiseOr BitwiseXor ClipByValue
        Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual LeftShift Less LessEqual
        LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NotEqual Pow RealDiv
        RightShift Select SelectV2 SquaredDifference Sub TruncateDiv TruncateMod Xdivy
        Xlog1py Xlogy
    """,
    "blocks": "BatchToSpace BatchToSpaceND DepthToSpace SpaceToBatch SpaceToBatchND SpaceToDepth",
    "collectives": "CollectiveAssignGroupV2",
    "combined_suppression": "CombinedNonMaxSuppression",
    "control_flow": """
        Assert Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf
        StatelessWhile SymbolicGradient While
    """,
    "convolution": """
        Conv Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2
        Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
        DepthwiseConv2dNativeBackpropInput
    """,
    "counts": """
        Bincount DenseBincount DenseCountSparseOutput HistogramFixedWidth RaggedBincount
        RaggedCountSparseOutput SparseBincount SparseCountSparseOutput
    """,
    "crops": "CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage",
    "ctc": "CTCGreedyDecoder",
    "ctc_loss": "CTCLoss",
    "cumulative": "Cumprod Cumsum CumulativeLogsumexp",
    "data_sizes": """
        DynamicPartition SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum Unique
        UniqueV2 UniqueWithCounts UniqueWithCountsV2 Where
    """,
    "diagonals": """
        Cross Diag DiagPart MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2
        MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2
        MatrixSetDiagV3 OneHot
    """,
    "drawing": "DrawBoundingBoxes DrawBoundingBoxesV2 ExtractGlimpseV2",
    "filled_rows": """
        RaggedFillEmptyRows RaggedFillEmptyRowsGrad SparseFillEmptyRows
        SparseFillEmptyRowsGrad
    """,
    "fractional_pooling": """
        FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad
    """,
    "gather": "Gather GatherNd GatherV2 UnravelIndex",
    "images": """
        AdjustContrastv2 AdjustHue AdjustSaturation FakeQuantWithMinMaxArgs
        FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
        FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
        FakeQuantWithMinMaxVarsPerChannelGradient HSVToRGB RGBToHSV
    """,
    "layouts": """
        ConjugateTranspose ControlTrigger DataFormatDimMap DataFormatVecPermute FakeParam
        MirrorPadGrad ReverseSequence SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2
        ToBool
    """,
    "least_squares": "MatrixSolveLs",
    "linalg": """
        BatchMatrixTriangularSolve Cholesky Eig LogMatrixDeterminant Lu MatrixDeterminant
        MatrixInverse MatrixSolve MatrixSquareRoot MatrixTriangularSolve Qr SelfAdjointEigV2
        Svd XlaSelfAdjointEig
    """,
    "list_pieces": "TensorListConcat TensorListConcatV2 TensorListSplit",
    "local_norm": "LRN LRNGrad",
    "matmul": """
        BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd BiasAddGrad BiasAddV1 Einsum MatMul
        SparseMatMul
    """,
    "normalization": """
        FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3
        FusedBatchNormV2 FusedBatchNormV3
    """,
    "optimizers": """
        ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad
        ResourceApplyAdagradDA ResourceApplyAdagradV2 ResourceApplyAdam
        ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp
        ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent
        ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyPowerSign
        ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent
        ResourceApplyRMSProp
    """,
    "patches": """
        Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput ExtractImagePatches
        ExtractVolumePatches
    """,
    "pooling": """
        AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad
        MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2
        MaxPoolGradGradWithArgmax MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2
        MaxPoolWithArgmax
    """,
    "projective": "ImageProjectiveTransformV2 ImageProjectiveTransformV3",
    "quantization": """
        Dequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4
        QuantizeAndDequantizeV4Grad QuantizeV2 XlaDequantize
    """,
    "ragged": "RaggedGather RaggedRange RaggedTensorToSparse RaggedTensorToTensor",
    "recurrent": """
        BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 GRUBlockCell GRUBlockCellGrad
        LSTMBlockCell LSTMBlockCellGrad
    """,
    "random": """
        RandomStandardNormal RandomUniform RandomUniformInt RngReadAndSkip RngSkip
        StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform
        StatefulUniformFullInt StatefulUniformInt StatelessRandomGetAlg
        StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomNormal
        StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformFullInt
        StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
        StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal
        StatelessTruncatedNormalV2 StochasticCastToInt TruncatedNormal
    """,
    "random_binomial": "StatefulRandomBinomial StatelessRandomBinomial",
    "random_counts": "RandomPoisson RandomPoissonV2 StatelessRandomPoisson",
    "random_gamma": "RandomGamma StatelessRandomGammaV2 StatelessRandomGammaV3",
    "random_picks": "Multinomial RandomShuffle StatelessMultinomial StatelessShuffle",
    "random_truncated": "ParameterizedTruncatedNormal StatelessParameterizedTruncatedNormal",
    "reduction": "All Any ArgMax ArgMin EuclideanNorm Max Mean Min Prod Sum",
    "resizing": """
        ResizeArea ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad
        ResizeNearestNeighbor ResizeNearestNeighborGrad
    """,
    "resource_arrays": """
        StackCloseV2 StackPopV2 StackPushV2 StackV2 TensorArrayCloseV3 TensorArrayConcatV3
        TensorArrayGatherV3 TensorArrayGradV3 TensorArrayReadV3 TensorArrayScatterV3
        TensorArraySizeV3 TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3
    """,
    "scale_translate": "ScaleAndTranslate ScaleAndTranslateGrad",
    "scatter": """
        InvertPermutation ScatterNd SparseToDense TensorScatterAdd TensorScatterMax
        TensorScatterMin TensorScatterSub TensorScatterUpdate UnsortedSegmentMax
        UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum
    """,
    "shaping": """
        BroadcastArgs BroadcastGradientArgs BroadcastTo Concat ConcatOffset ConcatV2 Const
        DebugIdentityV2 DebugIdentityV3 DeviceIndex Empty EnsureShape ExpandDims Fill
        Identity IdentityN LinSpace NoOp OnesLike Pack PlaceholderWithDefault
        PreventGradient Range Rank Reshape Reverse ReverseV2 Roll Shape ShapeN Size Snapshot
        Split SplitV Squeeze StopGradient Tile Transpose Unpack ZerosLike
    """,
    "slicing": """
        MirrorPad Pad PadV2 ResourceStridedSliceAssign Slice StridedSlice StridedSliceGrad
        TensorStridedSliceUpdate
    """,
    "sorting": "ApproxTopK Bucketize LowerBound NthElement TopK TopKV2 UpperBound",
    "sparse": """
        SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseReduceMax
        SparseReduceSum SparseReorder SparseSegmentMean SparseSegmentMeanGrad
        SparseSegmentMeanGradV2 SparseSegmentMeanWithNumSegments SparseSegmentSqrtN
        SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments
        SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2
        SparseSegmentSumWithNumSegments SparseTensorDenseAdd SparseTensorDenseMatMul
    """,
    "sparse_optimizers": """
        ResourceSparseApplyAdadelta ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA
        ResourceSparseApplyAdagradV2 ResourceSparseApplyCenteredRMSProp
        ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 ResourceSparseApplyKerasMomentum
        ResourceSparseApplyMomentum ResourceSparseApplyProximalAdagrad
        ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp
    """,
    "sparse_structure": """
        SparseAdd SparseAddGrad SparseConcat SparseReshape SparseSlice SparseSliceGrad
        SparseSoftmax SparseSparseMaximum SparseSparseMinimum SparseSplit
    """,
    "special": """
        BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1
        BesselK1e BesselY0 BesselY1 Betainc Dawsn Digamma Erfinv Expint FresnelCos
        FresnelSin Igamma IgammaGradA Igammac Lgamma Ndtri NextAfter Polygamma
        RandomGammaGrad Spence Zeta
    """,
    "spectral": "FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D",
    "stitching": "DynamicStitch ListDiff ParallelDynamicStitch",
    "suppression": """
        NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4
        NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps
    """,
    "tensor_lists": """
        EmptyTensorList TensorListElementShape TensorListFromTensor TensorListGather
        TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
        TensorListReserve TensorListResize TensorListScatterIntoExistingList
        TensorListScatterV2 TensorListSetItem TensorListStack
    """,
    "tridiagonal": "TridiagonalMatMul TridiagonalSolve",
    "unary": """
        Abs Acos Acosh Angle Asin Asinh Atan Atanh Bitcast Cast Ceil CheckNumerics
        CheckNumericsV2 Complex ComplexAbs Conj Cos Cosh Erf Erfc Exp Expm1 Floor Imag Inv
        InvGrad Invert IsFinite IsInf IsNan Log Log1p LogicalNot Neg PopulationCount Real
        Reciprocal ReciprocalGrad Rint Round Rsqrt RsqrtGrad Sigmoid SigmoidGrad Sign Sin
        Sinh Softplus SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square Tan Tanh
        TanhGrad
    """,
    "uniform_quantization": """
        UniformDequantize UniformQuantize UniformQuantizedAdd UniformQuantizedClipByValue
        UniformQuantizedConvolution UniformQuantizedConvolutionHybrid UniformQuantizedDot
        UniformQuantizedDotHybrid UniformRequantize
    """,
    "variables": """
        AssignAddVariableOp AssignSubVariableOp AssignVariableOp ReadVariableOp
        ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv
        ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd
        ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub
        ResourceScatterNdUpdate ResourceScatterSub ResourceScatterUpdate VarIsInitializedOp
        VariableShape
    """,
    "xla": """
        XlaAllReduce XlaBroadcastHelper XlaCustomCall XlaCustomCallV2 XlaDynamicSlice
        XlaDynamicUpdateSlice XlaGather XlaOptimizationBarrier XlaPad XlaReducePrecision
        XlaReduceScatter XlaRemoveDynamicDimensionSize XlaReplicaId XlaRngBitGenerator
        XlaSetBound XlaSetDynamicDimensionSize XlaSharding XlaSpmdFullToShardShape
        XlaSpmdShardToFullShape
    """,
    "xla_calls": """
        XlaIf XlaKeyValueSort XlaReduce XlaReduceWindow XlaScatter XlaSelectAndScatter
        XlaSort XlaVariadicReduce XlaVariadicReduceV2 XlaVariadicSort XlaWhile
    """,
    "xla_grids": "AssignVariableXlaConcatND ReadVariableXlaSplitND XlaConcatND XlaSplitND",
    "xla_modules": "XlaCallModule",
    "xla_products": "XlaConv XlaConvV2 XlaDot XlaDotV2 XlaEinsum XlaSvd",
}
"""By family, its op types."""

FAMILY_OF = {op: family for family, names in FAMILIES.items() for op in names.split()}
"""By op type, the family that has its rule."""

HOST_HINT = "move it out of the function with jit_compile=True"
_REASONS = (
    (("String", "AsString", "Regex", "Substr", "Unicode", "StaticRegex"),
     "strings are handled on the host", HOST_HINT),
    (("Decode", "Encode", "ExtractJpegShape", "Parse", "SerializeTensor"),
     "what files hold is decoded and encoded on the host", HOST_HINT),
    (("Print", "Timestamp", "WriteFile", "ReadFile"), "it talks to the host", HOST_HINT),
    (("PyFunc", "EagerPyFunc", "PyFuncStateless"), "it runs Python code",
     "write it with TensorFlow ops, or " + HOST_HINT),
    (("LookupTable", "HashTable", "MutableHash", "Iterator", "OptionalGet"),
     "tables and iterators live on the host", HOST_HINT),
    (("Collective",), "collectives are not compiled", HOST_HINT),
)  # fmt: skip


def is_compiled(op: str) -> bool:
    """Whether op type `op` has a rule."""
    return op in FAMILY_OF


def reason(op: str) -> tuple[str, str]:
    """Return (why op type `op` is not compiled, what to do)."""
    for prefixes, why, hint in _REASONS:
        if op.startswith(prefixes):
            return why, hint
    return "there is no lowering for it", HOST_HINT + ", or write it with other ops"
