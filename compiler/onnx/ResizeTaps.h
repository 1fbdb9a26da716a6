// How ONNX Resize makes each element of a longer or shorter line: of which elements, with which weights. Free of MLIR.
#ifndef MT_COMPILER_ONNX_RESIZETAPS_H
#define MT_COMPILER_ONNX_RESIZETAPS_H

#include "compiler/onnx/ElementTypes.h"

#include <string>
#include <vector>

namespace mt::onnx {

/// One line of Resize, in the words of its attributes.
struct ResizeLine {
  int64_t from = 1, to = 1;
  double scale = 1;          ///< to / from, or what the node gives for it
  double start = 0, end = 1; ///< of the region that is cropped, in parts of the line
  std::string mode = "nearest", transformation = "half_pixel", nearest = "round_prefer_floor";
  double cubic = -0.75;
  bool excludesOutside = false, antialias = false;
};

/// result[i] = sum over t of weights[t][i] * line[places[t][i]]; `outside[i]`: extrapolated, all its weights are zero.
struct ResizeTaps {
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<double>> weights;
  std::vector<bool> outside;
};

/// Of how many elements, at most, each element is made; known before anything is computed.
double mostTaps(const ResizeLine &line);
ResizeTaps tapsOf(const ResizeLine &line);

} // namespace mt::onnx
#endif
