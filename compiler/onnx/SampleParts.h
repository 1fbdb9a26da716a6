// Elements between the pixels of an image, made of those around them: what GridSample, RoiAlign and DeformConv share.
#ifndef MT_COMPILER_ONNX_SAMPLEPARTS_H
#define MT_COMPILER_ONNX_SAMPLEPARTS_H

#include "compiler/onnx/NodeContext.h"

namespace mt::onnx {

/// The pixels along one dimension that sampled points are made of. Places and weights have one shape, which broadcasts
/// to that of the points; a null weight is one.
struct PixelTaps {
  int64_t size;                             ///< of the dimension
  llvm::SmallVector<mlir::Value, 4> places; ///< whole numbers from 0 to size - 1
  llvm::SmallVector<mlir::Value, 4> weights;
};

/// `number` with 32 bits also where activations are bf16, whose coordinates would be off by pixels.
mlir::Value exactly(NodeContext &node, mlir::Value like, double number);
/// The largest whole number that is not above `value`: a constant to gradients.
mlir::Value wholeBelow(NodeContext &node, mlir::Value value);
/// `value`, kept from `low` to `high`.
mlir::Value clipped(NodeContext &node, mlir::Value value, double low, double high);

/// Taps at whole `places`, which are reals and may lie outside: there the nearest pixel stands for them, or with
/// `zeros` nothing.
PixelTaps tapsAt(NodeContext &node, llvm::ArrayRef<mlir::Value> places, llvm::ArrayRef<mlir::Value> weights,
                 int64_t size, bool zeros);
/// Both pixels beside each coordinate. Weights carry its gradient.
PixelTaps linearTaps(NodeContext &node, mlir::Value coordinate, int64_t size, bool zeros);
/// Four of them, by the cubic convolution of Keys with a = -3/4. `placed` says where a pixel is.
PixelTaps cubicTaps(NodeContext &node, mlir::Value coordinate, int64_t size, bool zeros,
                    llvm::function_ref<mlir::Value(mlir::Value)> placed);

/// An image [N, C, ..] as pixels [N, count, C].
mlir::Value pixelsOf(NodeContext &node, mlir::Value image);
/// The pixels of each point times their weights: [B, points, taps, C] of `pixels` [B, count, C]. The product of the
/// dimensions' sizes is `count`; the first dimension of the points is that of `pixels`, or that is one.
mlir::Value weightedPixels(NodeContext &node, mlir::Value pixels, llvm::ArrayRef<PixelTaps> dimensions);
/// Their sums: [B, points, C].
mlir::Value sampledPixels(NodeContext &node, mlir::Value pixels, llvm::ArrayRef<PixelTaps> dimensions);

} // namespace mt::onnx
#endif
