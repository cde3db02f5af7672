# SPDX-License-Identifier: Apache-2.0
"""Which TensorFlow ops are compiled, and the family of rules that each belongs to.

A family is a module of `lowering`, named with its package. Its table `RULES` has a rule for each op
type. It is imported when a program has one of its ops: most programs need a few of the families,
and one that is found on the disk needs none.

Invariant: the ops of a family here are the rows of its table; a test compares them.
"""

from __future__ import annotations

FAMILIES = {
    "array_ops.blocks": """
        BatchToSpace BatchToSpaceND DepthToSpace SpaceToBatch SpaceToBatchND SpaceToDepth
    """,
    "array_ops.data_sizes": """
        DynamicPartition SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum Unique
        UniqueV2 UniqueWithCounts UniqueWithCountsV2 Where
    """,
    "array_ops.diagonals": """
        Cross Diag DiagPart MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2
        MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2
        MatrixSetDiagV3 OneHot
    """,
    "array_ops.layouts": """
        ConjugateTranspose ControlTrigger DataFormatDimMap DataFormatVecPermute FakeParam
        MirrorPadGrad ReverseSequence SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2
        ToBool
    """,
    "array_ops.shaping": """
        BroadcastArgs BroadcastGradientArgs BroadcastTo Concat ConcatOffset ConcatV2 Const
        DebugIdentityV2 DebugIdentityV3 DeviceIndex Empty EnsureShape ExpandDims Fill
        Identity IdentityN LinSpace NoOp OnesLike Pack ParallelConcat PlaceholderWithDefault
        PreventGradient Range Rank Reshape Reverse ReverseV2 Roll Shape ShapeN Size Snapshot
        Split SplitV Squeeze StopGradient Tile Transpose Unpack ZerosLike
    """,
    "array_ops.slicing": """
        MirrorPad Pad PadV2 ResourceStridedSliceAssign Slice StridedSlice StridedSliceGrad
        TensorStridedSliceUpdate
    """,
    "array_ops.stitching": "DynamicStitch ListDiff ParallelDynamicStitch",
    "collectives": "CollectiveAssignGroupV2",
    "control_flow": """
        Assert Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf
        StatelessWhile SymbolicGradient While
    """,
    "image_ops.combined_suppression": "CombinedNonMaxSuppression",
    "image_ops.crops": "CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage",
    "image_ops.drawing": "DrawBoundingBoxes DrawBoundingBoxesV2 ExtractGlimpseV2",
    "image_ops.images": """
        AdjustContrastv2 AdjustHue AdjustSaturation FakeQuantWithMinMaxArgs
        FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
        FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
        FakeQuantWithMinMaxVarsPerChannelGradient HSVToRGB RGBToHSV
    """,
    "image_ops.projective": "ImageProjectiveTransformV2 ImageProjectiveTransformV3",
    "image_ops.resizing": """
        ResizeArea ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad
        ResizeNearestNeighbor ResizeNearestNeighborGrad
    """,
    "image_ops.scale_translate": "ScaleAndTranslate ScaleAndTranslateGrad",
    "image_ops.suppression": """
        NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4
        NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps
    """,
    "indexing.gather": "Gather GatherNd GatherV2 UnravelIndex",
    "indexing.scatter": """
        InvertPermutation ScatterNd SparseToDense TensorScatterAdd TensorScatterMax
        TensorScatterMin TensorScatterSub TensorScatterUpdate UnsortedSegmentMax
        UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum
    """,
    "linalg_ops.banded": "BandedTriangularSolve",
    "linalg_ops.least_squares": "MatrixSolveLs",
    "linalg_ops.linalg": """
        BatchMatrixTriangularSolve Cholesky Eig LogMatrixDeterminant Lu MatrixDeterminant
        MatrixInverse MatrixSolve MatrixSquareRoot MatrixTriangularSolve Qr SelfAdjointEigV2
        Svd XlaSelfAdjointEig
    """,
    "linalg_ops.matmul": """
        BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd BiasAddGrad BiasAddV1 Einsum MatMul
        SparseMatMul
    """,
    "linalg_ops.tridiagonal": "TridiagonalMatMul TridiagonalSolve",
    "list_ops.pieces": "TensorListConcat TensorListConcatV2 TensorListSplit",
    "list_ops.resource_arrays": """
        StackCloseV2 StackPopV2 StackPushV2 StackV2 TensorArrayCloseV3 TensorArrayConcatV3
        TensorArrayGatherV3 TensorArrayGradV3 TensorArrayReadV3 TensorArrayScatterV3
        TensorArraySizeV3 TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3
    """,
    "list_ops.tensor_lists": """
        EmptyTensorList TensorListElementShape TensorListFromTensor TensorListGather
        TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
        TensorListReserve TensorListResize TensorListScatterIntoExistingList
        TensorListScatterV2 TensorListSetItem TensorListStack
    """,
    "math_ops.binary": """
        Add AddN AddV2 ApproximateEqual Atan2 BitwiseAnd BitwiseOr BitwiseXor ClipByValue
        Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual LeftShift Less LessEqual
        LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NotEqual Pow RealDiv
        RightShift Select SelectV2 SquaredDifference Sub TruncateDiv TruncateMod Xdivy
        Xlog1py Xlogy
    """,
    "math_ops.cumulative": "Cumprod Cumsum CumulativeLogsumexp",
    "math_ops.reduction": "All Any ArgMax ArgMin EuclideanNorm Max Mean Min Prod Sum",
    "math_ops.sorting": "ApproxTopK Bucketize LowerBound NthElement TopK TopKV2 UpperBound",
    "math_ops.special": """
        BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1
        BesselK1e BesselY0 BesselY1 Betainc Dawsn Digamma Erfinv Expint FresnelCos
        FresnelSin Igamma IgammaGradA Igammac Lgamma Ndtri NextAfter Polygamma
        RandomGammaGrad Spence Zeta
    """,
    "math_ops.spectral": """
        FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D
    """,
    "math_ops.unary": """
        Abs Acos Acosh Angle Asin Asinh Atan Atanh Bitcast Cast Ceil CheckNumerics
        CheckNumericsV2 Complex ComplexAbs Conj Cos Cosh Erf Erfc Exp Expm1 Floor Imag Inv
        InvGrad Invert IsFinite IsInf IsNan Log Log1p LogicalNot Neg PopulationCount Real
        Reciprocal ReciprocalGrad Rint Round Rsqrt RsqrtGrad Sigmoid SigmoidGrad Sign Sin
        Sinh Softplus SoftplusGrad Softsign SoftsignGrad Sqrt SqrtGrad Square Tan Tanh
        TanhGrad
    """,
    "nn_ops.activation": """
        Elu EluGrad InTopK InTopKV2 L2Loss LeakyRelu LeakyReluGrad LogSoftmax Relu Relu6
        Relu6Grad ReluGrad Selu SeluGrad Softmax SoftmaxCrossEntropyWithLogits
        SparseSoftmaxCrossEntropyWithLogits
    """,
    "nn_ops.convolution": """
        Conv Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2
        Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
        DepthwiseConv2dNativeBackpropInput
    """,
    "nn_ops.ctc": "CTCGreedyDecoder",
    "nn_ops.ctc_loss": "CTCLoss",
    "nn_ops.fractional_pooling": """
        FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad
    """,
    "nn_ops.local_norm": "LRN LRNGrad",
    "nn_ops.normalization": """
        FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3
        FusedBatchNormV2 FusedBatchNormV3
    """,
    "nn_ops.patches": """
        Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput ExtractImagePatches
        ExtractVolumePatches
    """,
    "nn_ops.pooling": """
        AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad
        MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2
        MaxPoolGradGradWithArgmax MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2
        MaxPoolWithArgmax
    """,
    "nn_ops.recurrent": """
        BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 GRUBlockCell GRUBlockCellGrad
        LSTMBlockCell LSTMBlockCellGrad
    """,
    "quantization_ops.quantization": """
        Dequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4
        QuantizeAndDequantizeV4Grad QuantizeV2 XlaDequantize
    """,
    "quantization_ops.uniform": """
        UniformDequantize UniformQuantize UniformQuantizedAdd UniformQuantizedClipByValue
        UniformQuantizedConvolution UniformQuantizedConvolutionHybrid UniformQuantizedDot
        UniformQuantizedDotHybrid UniformRequantize
    """,
    "random_ops.binomial": "StatefulRandomBinomial StatelessRandomBinomial",
    "random_ops.gamma": "RandomGamma StatelessRandomGammaV2 StatelessRandomGammaV3",
    "random_ops.picks": "Multinomial RandomShuffle StatelessMultinomial StatelessShuffle",
    "random_ops.poisson": "RandomPoisson RandomPoissonV2 StatelessRandomPoisson",
    "random_ops.random": """
        RandomStandardNormal RandomUniform RandomUniformInt RngReadAndSkip RngSkip
        StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform
        StatefulUniformFullInt StatefulUniformInt StatelessRandomGetAlg
        StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomNormal
        StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformFullInt
        StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
        StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal
        StatelessTruncatedNormalV2 StochasticCastToInt TruncatedNormal
    """,
    "random_ops.truncated": "ParameterizedTruncatedNormal StatelessParameterizedTruncatedNormal",
    "sparse_ops.counts": """
        Bincount DenseBincount DenseCountSparseOutput HistogramFixedWidth RaggedBincount
        RaggedCountSparseOutput SparseBincount SparseCountSparseOutput
    """,
    "sparse_ops.filled_rows": """
        RaggedFillEmptyRows RaggedFillEmptyRowsGrad SparseFillEmptyRows
        SparseFillEmptyRowsGrad
    """,
    "sparse_ops.ragged": "RaggedGather RaggedRange RaggedTensorToSparse RaggedTensorToTensor",
    "sparse_ops.sparse": """
        SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseReduceMax
        SparseReduceSum SparseReorder SparseSegmentMean SparseSegmentMeanGrad
        SparseSegmentMeanGradV2 SparseSegmentMeanWithNumSegments SparseSegmentSqrtN
        SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments
        SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2
        SparseSegmentSumWithNumSegments SparseTensorDenseAdd SparseTensorDenseMatMul
    """,
    "sparse_ops.structure": """
        SparseAdd SparseAddGrad SparseConcat SparseReshape SparseSlice SparseSliceGrad
        SparseSoftmax SparseSparseMaximum SparseSparseMinimum SparseSplit
    """,
    "state_ops.optimizers": """
        ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad
        ResourceApplyAdagradDA ResourceApplyAdagradV2 ResourceApplyAdam
        ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp
        ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent
        ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyPowerSign
        ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent
        ResourceApplyRMSProp
    """,
    "state_ops.sparse_optimizers": """
        ResourceSparseApplyAdadelta ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA
        ResourceSparseApplyAdagradV2 ResourceSparseApplyCenteredRMSProp
        ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 ResourceSparseApplyKerasMomentum
        ResourceSparseApplyMomentum ResourceSparseApplyProximalAdagrad
        ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp
    """,
    "state_ops.variables": """
        AssignAddVariableOp AssignSubVariableOp AssignVariableOp ReadVariableOp
        ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv
        ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd
        ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub
        ResourceScatterNdUpdate ResourceScatterSub ResourceScatterUpdate VarIsInitializedOp
        VariableShape
    """,
    "xla_ops.calls": """
        XlaIf XlaKeyValueSort XlaReduce XlaReduceWindow XlaScatter XlaSelectAndScatter
        XlaSort XlaVariadicReduce XlaVariadicReduceV2 XlaVariadicSort XlaWhile
    """,
    "xla_ops.grids": "AssignVariableXlaConcatND ReadVariableXlaSplitND XlaConcatND XlaSplitND",
    "xla_ops.instructions": """
        XlaAllReduce XlaBroadcastHelper XlaCustomCall XlaCustomCallV2 XlaDynamicSlice
        XlaDynamicUpdateSlice XlaGather XlaOptimizationBarrier XlaPad XlaReducePrecision
        XlaReduceScatter XlaRemoveDynamicDimensionSize XlaReplicaId XlaRngBitGenerator
        XlaSetBound XlaSetDynamicDimensionSize XlaSharding XlaSpmdFullToShardShape
        XlaSpmdShardToFullShape
    """,
    "xla_ops.modules": "XlaCallModule",
    "xla_ops.products": "XlaConv XlaConvV2 XlaDot XlaDotV2 XlaEinsum XlaSvd",
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
