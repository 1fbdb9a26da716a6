#include "kernels/cpu/Bf16Units.h"
#include "runtime/base/OutOfMemory.h"

#include <dnnl.hpp>

#include <string_view>

namespace mt::kernels::cpu {
namespace {

using dnnl::memory;

const dnnl::engine &engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::data_type typeOf(DType type) {
  return type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// [rows, columns], or what is stored as [columns, rows], of rows `line` apart.
memory::desc matrix(int64_t rows, int64_t columns, bool isTransposed, int64_t line, DType type) {
  return {{rows, columns}, typeOf(type), isTransposed ? memory::dims{1, line} : memory::dims{line, 1}};
}

class Matmul : public Bf16Product {
public:
  explicit Matmul(const Shape &shape) : Matmul(describe(shape), shape) {}

  bool isFast() const { return std::string_view(primitive.impl_info_str()).find("ref") == std::string_view::npos; }
  uint64_t scratch() const override { return primitive.scratchpad_desc().get_size(); }

  void run(const void *a, const void *b, void *c, const void *bias, std::byte *scratch) const override {
    holdToOneThread();
    const auto of = [](const memory::desc &desc, const void *data) {
      return memory(desc, engine(), const_cast<void *>(data)); // NOLINT: the library has one type for both
    };
    try {
      thread_local dnnl::stream stream(engine());
      std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, of(left, a)},
                                                   {DNNL_ARG_WEIGHTS, of(right, b)},
                                                   {DNNL_ARG_DST, of(result, c)},
                                                   {DNNL_ARG_SCRATCHPAD, of(primitive.scratchpad_desc(), scratch)}};
      if (bias)
        arguments.emplace(DNNL_ARG_BIAS, of(row, bias));
      code.execute(stream, arguments);
    } catch (const dnnl::error &) {
      endForMemory(); // the shape was accepted when the product was prepared: memory is missing
    }
  }

private:
  memory::desc left, right, result, row;
  dnnl::matmul::primitive_desc primitive;
  dnnl::matmul code;

  static dnnl::matmul::primitive_desc describe(const Shape &shape) {
    const Gemm &g = shape.gemm;
    const memory::desc a = matrix(g.m, g.k, g.transposeA, g.lda, DType::bf16),
                       b = matrix(g.k, g.n, g.transposeB, g.ldb, DType::bf16),
                       c = matrix(g.m, g.n, false, g.ldc, shape.c);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.adds) {
      dnnl::post_ops sum;
      sum.append_sum(1);
      attributes.set_post_ops(sum);
    }
    const memory::desc bias = shape.bias ? matrix(1, g.n, false, g.n, *shape.bias) : memory::desc();
#if DNNL_VERSION_MAJOR >= 3
    return shape.bias ? dnnl::matmul::primitive_desc(engine(), a, b, bias, c, attributes)
                      : dnnl::matmul::primitive_desc(engine(), a, b, c, attributes);
#else
    const dnnl::matmul::desc what = shape.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    return {what, attributes, engine()};
#endif
  }

  Matmul(dnnl::matmul::primitive_desc made, const Shape &shape)
      : left(made.src_desc()), right(made.weights_desc()), result(made.dst_desc()),
        row(shape.bias ? made.bias_desc() : memory::desc()), primitive(std::move(made)), code(primitive) {}
};

} // namespace

std::shared_ptr<const Bf16Product> Bf16Product::make(const Shape &shape) {
  if (!hasBf16Units())
    return nullptr;
  holdToOneThread(); // what is prepared for several would be cut among them
  try {
    auto made = std::make_shared<const Matmul>(shape);
    return made->isFast() ? made : nullptr;
  } catch (const dnnl::error &) {
    return nullptr;
  }
}

} // namespace mt::kernels::cpu
