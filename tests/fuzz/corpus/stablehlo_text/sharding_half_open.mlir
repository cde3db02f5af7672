func.func public @main(%x: tensor<2xf32> {mhlo.sharding = "{a"}) -> tensor<2xf32> { return %x : tensor<2xf32> }
