func.func @main(%x: tensor<4xf32>, %n: tensor<4xi32>, %c: tensor<4xi1>, %h: tensor<4xbf16>, %s: f32, %i: i32, %b: i1) -> (tensor<4xf32>, tensor<4xi8>, tensor<4xi64>, tensor<4xf32>, tensor<4xf32>) {
  %0 = arith.cmpf olt, %x, %x : tensor<4xf32>
  %1 = arith.cmpi slt, %n, %n : tensor<4xi32>
  %2 = arith.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>
  %3 = arith.select %b, %x, %2 : tensor<4xf32>
  %4 = arith.fptosi %x : tensor<4xf32> to tensor<4xi8>
  %5 = arith.sitofp %n : tensor<4xi32> to tensor<4xf32>
  %6 = arith.extui %c : tensor<4xi1> to tensor<4xi64>
  %7 = arith.trunci %n : tensor<4xi32> to tensor<4xi8>
  %8 = arith.cmpf ugt, %s, %s : f32
  %9 = arith.select %8, %i, %i : i32
  %10 = arith.index_cast %i : i32 to index
  %11 = arith.extsi %i : i32 to i64
  %12 = arith.select %0, %x, %5 : tensor<4xi1>, tensor<4xf32>
  return %3, %4, %6, %5, %12 : tensor<4xf32>, tensor<4xi8>, tensor<4xi64>, tensor<4xf32>, tensor<4xf32>
}
