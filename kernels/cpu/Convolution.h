// What the three calls of convolutions share, and those of groups of few channels. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_CONVOLUTION_H
#define MT_KERNELS_CPU_CONVOLUTION_H

#include "kernels/Windows.h"
#include "kernels/cpu/FloatRows.h"

namespace mt::kernels::cpu {

/// Operands and shape of the three calls.
struct Convolution {
  ConvShape shape;
  RowIn image, kernel, gradient; ///< those that are read
  RowIn bias;
  RowOut result;

  const Windows &windows() const { return shape.windows; }
  int64_t planeOf(int64_t n, int64_t group, int64_t channel) const {
    return ((n * shape.groups + group) * shape.channels + channel) * windows().imagePlaces();
  }
  int64_t resultOf(int64_t n, int64_t group, int64_t filter) const {
    return ((n * shape.groups + group) * shape.filters + filter) * windows().resultPlaces();
  }
  int64_t weightOf(int64_t group, int64_t filter, int64_t channel) const {
    return ((group * shape.filters + filter) * shape.channels + channel) * windows().places();
  }
  void write(const Launch &launch, const float *from, int64_t at, int64_t count) const {
    result.store(from, launch.operands[result.operand], at, count, launch.accumulates(result.operand));
  }
  float biasOf(const Launch &launch, int64_t filter) const {
    float value = 0;
    return bias.present ? *bias.at(launch, filter, 1, &value) : 0;
  }
};

/// Convolutions whose groups have few channels and filters, plane by plane: with so few a matrix is not worth the name.
bool hasFewChannels(const ConvShape &shape);
Run forwardByPlanes(const Convolution &made);
Run dataGradByPlanes(const Convolution &made);
Run weightGradByPlanes(const Convolution &made);

} // namespace mt::kernels::cpu
#endif
