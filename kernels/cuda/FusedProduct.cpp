// matmul_gelu, matmul_gelu_grad, matmul_sums (matmul_add is Matmul.cpp's): one product of cuBLASLt whose epilogue does
// the rest where the library has one that repeats its bits, else their parts one after another. The library's gelu is
// taken in 16 bits alone: in 32 its own error would show. Saves a pass over the product's result, or over what is
// summed.
#include "kernels/cuda/FusedProduct.h"

#include "kernels/DeviceScratch.h"
#include "kernels/FusedProduct.h"
#include "kernels/cuda/Blas.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Family.h"
#include "kernels/cuda/Library.h"
#include "kernels/cuda/Scratch.h"

#include <vector>

namespace mt::kernels::cuda {
namespace {

struct Step {
  Part part;
  Run run;
};

/// Operands of the product's result, and of what the epilogue reads or writes beside it.
struct Whole {
  Product product;
  FusedScratch sizes;
  size_t result, aside;
  bool bias;
  int64_t sums; ///< elements; 0 of the others

  Status operator()(const Launch &launch) const {
    Scratch scratch(launch.operands.back());
    float *waiting = scratch.take<float>(sizes.sums);
    bool adds = launch.accumulates(aside) && sums > 0;
    ProductPlaces places{.a = launch.operands[0], .b = launch.operands[1], .c = launch.operands[result]};
    places.scratch = scratch.take(sizes.library);
    places.bias = bias ? launch.operands[2] : nullptr;
    places.aside = adds ? waiting : launch.operands[aside];
    places.beta = launch.accumulates(result) ? 1.0f : 0.0f;
    MT_TRY(product.run(launch.stream, places));
    if (!adds)
      return {};
    return castElements(launch.stream, waiting, DType::f32, launch.operands[aside], DType::f32, sums, /*adds=*/true);
  }
};

/// What an epilogue would do; none: no epilogue does what the call asks.
std::optional<Epilogue> epilogueOf(const Signature &call) {
  const auto &operands = call.operands;
  bool narrow = operands[0].type == DType::bf16 || operands[0].type == DType::f16;
  if (!narrow)
    return std::nullopt;
  if (call.kernel == "matmul_sums") {
    bool wide = operands[2].type == DType::f32 && operands[3].type == DType::f32;
    if (!wide || !operands[2].present || !operands[3].present)
      return std::nullopt;
    return call.integer("sumsOfLhs") ? Epilogue::sumsOfA : Epilogue::sumsOfB;
  }
  constexpr int64_t kLine = 8; // rows of what gelu is taken of begin at multiples of as many elements
  if (operands[3].type != operands[0].type || operands[3].dims.back() % kLine != 0 || !operands[3].present)
    return std::nullopt;
  if (call.kernel == "matmul_gelu_grad")
    return Epilogue::geluGrad;
  if (operands[2].present && operands[2].type != operands[3].type)
    return std::nullopt;
  return operands[4].present ? Epilogue::geluStored : Epilogue::gelu;
}

Result<Run> prepareFusedProduct(const Signature &call, Library &library) {
  MT_ASSIGN(Blas * blas, library.blas());
  Result<Run> whole = prepareEpilogue(call, *blas);
  return whole ? whole : prepareParts(call, library);
}

} // namespace

Result<Run> prepareParts(const Signature &call, Library &library) {
  std::vector<Step> steps;
  for (const Part &part : partsOf(call)) {
    Part whole = withScratch(part, Backend::cuda);
    MT_ASSIGN(Run run, prepare(whole.call, library));
    steps.push_back({std::move(whole), std::move(run)});
  }
  return Run([steps = std::move(steps)](const Launch &launch) -> Status {
    for (const Step &step : steps) {
      PartOperands own = operandsOf(step.part, launch.operands, launch.accumulate);
      MT_TRY(step.run(
          {.operands = own.all(), .accumulate = own.accumulate, .stream = launch.stream, .fault = launch.fault}));
    }
    return {};
  });
}

Result<Run> prepareEpilogue(const Signature &call, Blas &blas) {
  std::optional<Epilogue> epilogue = epilogueOf(call);
  if (!epilogue)
    return fail("{}: no epilogue does this", call.kernel);
  Part product = partsOf(call).front(); // its result is the call's, or what gelu is taken of: of the same shape
  ProductShape shape = matmulShape(product.call);
  if (shape.batches > 1)
    return fail("{}: no epilogue does this for a batch of products", call.kernel);
  shape.epilogue = *epilogue;
  FusedScratch sizes = FusedScratch::of(call);
  MT_ASSIGN(Product chosen, blas.product(shape, sizes.library));
  bool sums = call.kernel == "matmul_sums";
  size_t result = sums ? 2 : 3, aside = sums ? 3 : call.kernel == "matmul_gelu_grad" ? 2 : 4;
  return Run(Whole{chosen, sizes, result, aside, shape.bias, sums ? call.operands[3].elements() : 0});
}

std::span<const Entry> fusedProductEntries() {
  static constexpr Entry kEntries[] = {{"matmul_gelu", prepareFusedProduct},
                                       {"matmul_gelu_grad", prepareFusedProduct},
                                       {"matmul_sums", prepareFusedProduct}};
  return kEntries;
}

} // namespace mt::kernels::cuda
