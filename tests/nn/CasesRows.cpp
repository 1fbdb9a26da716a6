// Cases of products, and of operations on rows: normalization and softmax.
#include "tests/nn/GradientCheck.h"

using namespace mlir;

namespace mt::nn::test {
namespace {

SmallVector<Value> one(Value value) { return {value}; }
std::string flag(bool set, const char *name) { return set ? std::string(" ") + name : ""; }

Index matrix(Index batch, int64_t rows, int64_t columns, bool transposed) {
  batch.insert(batch.end(), {transposed ? columns : rows, transposed ? rows : columns});
  return batch;
}

struct Product {
  Index batch;
  bool shared, tl, tr, biased; ///< shared: one right side for the batch
  int64_t m = 2, k = 3, n = 4;

  std::string name() const {
    return "rank " + std::to_string(batch.size() + 2) + flag(shared, "shared") + flag(tl, "transposeLhs") +
           flag(tr, "transposeRhs") + flag(biased, "bias") + " " + std::to_string(m) + "x" + std::to_string(k) + "x" +
           std::to_string(n);
  }
  std::vector<Input> inputs() const {
    std::vector<Input> made{real(matrix(batch, m, k, tl)), real(matrix(shared ? Index() : batch, k, n, tr))};
    if (biased)
      made.push_back(real({n}));
    return made;
  }
};

std::vector<Product> products() {
  std::vector<Product> made;
  for (const Index &batch : std::vector<Index>{{}, {2}, {2, 3}, {1}})
    for (bool shared : {false, true})
      for (bool tl : {false, true})
        for (bool tr : {false, true})
          for (bool biased : {false, true})
            if (!batch.empty() || !shared)
              made.push_back({batch, shared, tl, tr, biased});
  for (bool tl : {false, true})
    for (bool tr : {false, true}) {
      made.push_back({{2}, true, tl, tr, true, 1, 1, 1});
      made.push_back({{}, false, tl, tr, false, 1, 3, 1});
      made.push_back({{2}, false, tl, tr, false, 3, 1, 2});
    }
  return made;
}

void addProducts(Cases &cases) {
  for (bool tr : {false, true}) // dl of the second product is matmul_gelu_grad
    cases["matmul_gelu"].push_back({std::string("between products") + flag(tr, "transposeRhs"),
                                    {real({2, 3}), real({3, 4}), real(tr ? Index{5, 4} : Index{4, 5}), real({5})},
                                    [=](Graph g) {
                                      auto made = g.make<MatmulGeluOp>(g.in[0], g.in[1], Value(), false, false);
                                      return one(g.make<MatmulOp>(made.getResult(), g.in[2], g.in[3], false, tr));
                                    }});
  for (const Product &product : products()) {
    auto plain = [product](Graph g) {
      return g.make<MatmulOp>(g.in[0], g.in[1], product.biased ? g.in[2] : Value(), product.tl, product.tr);
    };
    cases["matmul"].push_back({product.name(), product.inputs(), [plain](Graph g) { return one(plain(g)); }});
    // Of a product: what is added has its shape.
    cases["matmul_add"].push_back({product.name(), product.inputs(), [product](Graph g) {
                                     Value bias = product.biased ? g.in[2] : Value();
                                     Value first = g.make<MatmulOp>(g.in[0], g.in[1], Value(), product.tl, product.tr);
                                     return one(
                                         g.make<MatmulAddOp>(g.in[0], g.in[1], first, bias, product.tl, product.tr));
                                   }});
    // Both results carry gradient, and each alone.
    for (int results : {1, 2, 3})
      cases["matmul_gelu"].push_back({product.name() + (results == 1   ? ""
                                                        : results == 2 ? " its input"
                                                                       : " and its input"),
                                      product.inputs(), [=](Graph g) {
                                        auto made =
                                            g.make<MatmulGeluOp>(g.in[0], g.in[1], product.biased ? g.in[2] : Value(),
                                                                 product.tl, product.tr);
                                        SmallVector<Value> values;
                                        if (results & 1)
                                          values.push_back(made.getResult());
                                        if (results & 2)
                                          values.push_back(made.getInput());
                                        return values;
                                      }});
    // What mt-fuse-epilogues makes matmul_gelu_grad and matmul_sums of.
    cases["gelu"].push_back({"tanh behind a product, " + product.name(), product.inputs(),
                             [plain](Graph g) { return one(g.make<GeluOp>(plain(g), "tanh")); }});
  }
  for (bool shared : {false, true})
    for (bool tl : {false, true})
      for (bool tr : {false, true}) {
        Product product{{2}, shared, tl, tr, true};
        cases["matmul"].push_back({product.name() + ", result and bias in 32 bits", product.inputs(), [=](Graph g) {
                                     Value bias = castTo(g.builder, g.in[2], g.builder.getF32Type());
                                     return one(in32Bits(g.make<MatmulOp>(g.in[0], g.in[1], bias, tl, tr)));
                                   }});
      }
  for (bool transposed : {false, true})
    cases["matmul"].push_back(
        {std::string("of a matrix and itself") + flag(transposed, "transposed"), {real({3, 2})}, [=](Graph g) {
           return one(g.make<MatmulOp>(g.in[0], g.in[0], transposed, !transposed));
         }});
}

void addNorms(Cases &cases) {
  for (const Index &shape : std::vector<Index>{{4}, {3, 4}, {2, 3, 4}, {2, 1, 2, 5}})
    for (double epsilon : {1e-5, 0.5})
      for (bool gain : {false, true}) {
        for (bool bias : {false, true}) {
          Case made{"rank " + std::to_string(shape.size()) + flag(gain, "gain") + flag(bias, "bias") + " epsilon " +
                        std::to_string(epsilon),
                    {real(shape)},
                    [=](Graph g) {
                      Value last = g.in.back();
                      return one(g.make<LayerNormOp>(g.in[0], gain ? g.in[1] : Value(), bias ? last : Value(),
                                                     APFloat(epsilon))
                                     .getResult());
                    }};
          for (int i = 0; i < gain + bias; ++i)
            made.inputs.push_back(real({shape.back()}));
          cases["layer_norm"].push_back(made);
        }
        Case made{"rank " + std::to_string(shape.size()) + flag(gain, "gain") + " epsilon " + std::to_string(epsilon),
                  {real(shape)},
                  [=](Graph g) {
                    return one(g.make<RmsNormOp>(g.in[0], gain ? g.in[1] : Value(), APFloat(epsilon)).getResult());
                  }};
        if (gain)
          made.inputs.push_back(real({shape.back()}));
        cases["rms_norm"].push_back(made);
      }
}

/// Rows, and gains, of 16 bits where the type under test has them; what comes out has 32.
void addWideNorms(Cases &cases) {
  const std::vector<Input> inputs{real({3, 4}), real({4})};
  cases["layer_norm"].push_back(
      {"in 32 bits", inputs, [](Graph g) {
         return one(in32Bits(g.make<LayerNormOp>(g.in[0], g.in[1], g.in[1], APFloat(1e-5)).getResult()));
       }});
  cases["rms_norm"].push_back({"in 32 bits", inputs, [](Graph g) {
                                 return one(in32Bits(g.make<RmsNormOp>(g.in[0], g.in[1], APFloat(1e-5)).getResult()));
                               }});
}

/// What mt-fuse-epilogues adds to a norm's gradient: the sum's own.
void addResiduals(Cases &cases) {
  const std::vector<Input> inputs{real({3, 4}), real({4})};
  cases["layer_norm"].push_back({"beside a residual", inputs, [](Graph g) {
                                   Value norm =
                                       g.make<LayerNormOp>(g.in[0], g.in[1], g.in[1], APFloat(1e-5)).getResult();
                                   return one(g.make<AddOp>(norm, g.in[0]));
                                 }});
  cases["rms_norm"].push_back({"beside a residual", inputs, [](Graph g) {
                                 Value norm = g.make<RmsNormOp>(g.in[0], g.in[1], APFloat(1e-5)).getResult();
                                 return one(g.make<AddOp>(g.in[0], norm));
                               }});
}

void addSoftmaxes(Cases &cases) {
  for (const Index &shape : std::vector<Index>{{4}, {3, 4}, {2, 3, 4}, {2, 1, 2, 5}}) {
    std::string name = "rank " + std::to_string(shape.size());
    cases["softmax"].push_back({name, {real(shape)}, [](Graph g) { return one(g.make<SoftmaxOp>(g.in[0])); }});
    cases["log_softmax"].push_back({name, {real(shape)}, [](Graph g) { return one(g.make<LogSoftmaxOp>(g.in[0])); }});
  }
}

} // namespace

void addProductCases(Cases &cases) { addProducts(cases); }
void addRowCases(Cases &cases) {
  addNorms(cases);
  addWideNorms(cases);
  addResiduals(cases);
  addSoftmaxes(cases);
}

} // namespace mt::nn::test
