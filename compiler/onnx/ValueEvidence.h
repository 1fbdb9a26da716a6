// What the values of a stored tensor give away about it: a table of sines and cosines, or a mask, is no parameter,
// whatever it is called. Free of MLIR.
#ifndef MT_COMPILER_ONNX_VALUEEVIDENCE_H
#define MT_COMPILER_ONNX_VALUEEVIDENCE_H

#include "compiler/onnx/HostTensor.h"

namespace mt::onnx {

/// Values of larger tensors are not looked at.
inline constexpr int64_t kEvidenceLimit = 4 << 20;

/// a[i]^2 + b[i]^2 is the same positive number for all i: a cosine table and its sine table (possibly scaled alike).
bool formCircle(const HostTensor &a, const HostTensor &b);
/// The same within one tensor, between the halves or the even and odd elements of its last dimension.
bool holdsCircle(const HostTensor &tensor);
/// Every row of the last dimension is made of sines and cosines of equal angles - as halves, as halves of each half (two
/// coordinates) or as neighbours -, but for rows of zeros: positions as Vaswani et al. write them, arXiv 1706.03762. To
/// the precision of the stored type: what was trained from there on is no such table.
bool holdsSinusoids(const HostTensor &tensor);
/// Two values only, in two dimensions: zero and one that hides what it is added to or subtracted from, of at least 1e4.
bool isAddedMask(const HostTensor &tensor);
/// The same, or one and zero, which hides what it multiplies.
bool isMask(const HostTensor &tensor);
/// Elements grow by the same steps along one dimension: positions times slopes, as linear attention biases are.
bool isRamp(const HostTensor &tensor);
/// Coordinates of the points of a regular grid, as those that affine_grid multiplies: two to four lines along one
/// dimension, each constant or the same steps, three or more, again and again.
bool isGrid(const HostTensor &tensor);
/// All elements equal.
bool isUniform(const HostTensor &tensor);

} // namespace mt::onnx
#endif
