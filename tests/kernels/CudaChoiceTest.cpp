// What the GPU's kernels decide and describe on the host: which library is opened, which algorithm is taken within
// which bound, which way attention goes, and where matrices lie. No kernel runs here and no GPU is needed.
#include "kernels/Coverage.h"
#include "kernels/DeviceScratch.h"
#include "kernels/FusedProduct.h"
#include "kernels/Visibility.h"
#include "kernels/cuda/BlockAttention.h"
#include "kernels/cuda/ConvolutionGraph.h"
#include "kernels/cuda/CudaKernels.h"
#include "kernels/cuda/FusedProduct.h"
#include "kernels/cuda/GraphAttention.h"
#include "tests/kernels/FakeBlas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

namespace mt::kernels::test {
namespace {

using cuda::Candidate;
using cuda::LibraryFolders;
using cuda::Product;
using cuda::ProductShape;

OperandType in(Dims dims, DType type = DType::f32) { return {type, std::move(dims), Effect::read, true}; }
OperandType out(Dims dims, DType type = DType::f32) { return {type, std::move(dims), Effect::write, true}; }
OperandType none(Effect effect = Effect::read) { return {DType::f32, {}, effect, false}; }

TEST(CudaKernels, CoverTheCatalogue) {
  for (const Kernel &kernel : all())
    EXPECT_EQ(cuda::supports(kernel.name), hasCode(kernel.name, Backend::cuda)) << kernel.name << ": see kernels/Coverage.cpp";
}

/// A folder of this test's own.
class Folder {
public:
  Folder() : path(std::filesystem::temp_directory_path() / ("mt-libraries-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string with(const std::string &file) const {
    std::filesystem::create_directories((path / file).parent_path());
    std::ofstream(path / file) << "no library";
    return (path / file).string();
  }
  std::filesystem::path path;
};

TEST(CudaLibraries, PythonsPackagesAreFoundBesideEveryPythonOnThePath) {
  Folder folder;
  folder.with("venv/bin/python3");
  folder.with("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libcublasLt.so.13");
  folder.with("venv/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  folder.with("mine/x");
  std::string root = folder.path.string();
  LibraryFolders folders = LibraryFolders::in({root + "/mine:" + root + "/absent", root + "/venv/bin", "", ""});
  EXPECT_EQ(folders.named, (std::vector<std::string>{root + "/mine"}));
  auto known = [&](const std::string &one) { return std::ranges::find(folders.known, one) != folders.known.end(); };
  EXPECT_TRUE(known(root + "/venv/lib/python3.11/site-packages/nvidia/cu13/lib"));
  EXPECT_TRUE(known(root + "/venv/lib/python3.11/site-packages/nvidia/cudnn/lib"));
}

TEST(CudaLibraries, PythonsPackagesAreFoundAlongTheLinksOfAnInterpreter) {
  Folder folder;
  namespace fs = std::filesystem;
  const std::string root = folder.path.string();
  for (const char *made : {"base/bin/python3.11", "base/lib/python3.11/site-packages/nvidia/cudnn/lib/x",
                           "venv/lib/python3.11/site-packages/nvidia/cublas/lib/x", "venv/bin/x",
                           "pyenv/versions/3.12.1/lib/python3.12/site-packages/nvidia/cu13/lib/x", "usr/bin/x"})
    folder.with(made);
  fs::create_symlink("../../base/bin/python3.11", folder.path / "venv/bin/python3");     // a virtual environment's
  fs::create_symlink(folder.path / "venv/bin/python3", folder.path / "usr/bin/python3"); // and a link to that
  fs::create_directory_symlink("usr/bin", folder.path / "bin");
  LibraryFolders folders = LibraryFolders::in({"", root + "/bin", "", root + "/pyenv/versions/3.12.1"});
  auto place = [&](const std::string &one) {
    return std::ranges::find(folders.known, root + one) - folders.known.begin();
  };
  const auto none = std::ssize(folders.known),
             environment = place("/venv/lib/python3.11/site-packages/nvidia/cublas/lib"),
             base = place("/base/lib/python3.11/site-packages/nvidia/cudnn/lib"),
             own = place("/pyenv/versions/3.12.1/lib/python3.12/site-packages/nvidia/cu13/lib");
  EXPECT_LT(environment, none);
  EXPECT_LT(base, none);
  EXPECT_LT(own, environment) << "what the user has chosen comes first";
  EXPECT_LT(environment, base);
  fs::remove(folder.path / "usr/bin/python3");
  fs::create_symlink("python3", folder.path / "usr/bin/python3"); // a link to itself
  LibraryFolders::in({"", root + "/bin", "", ""});
}

TEST(CudaLibraries, NamedFoldersComeBeforeTheLoaderAndThatBeforeTheRest) {
  Folder folder;
  std::string named = folder.with("named/libx.so"), known = folder.with("known/libx.so");
  LibraryFolders folders{{folder.path / "named"}, {folder.path / "known"}};
  std::vector<std::string> asked;
  auto opens = [&](std::string_view which) {
    return [&, which](const std::string &file, std::string &reason) -> void * {
      asked.push_back(file);
      reason = "it is broken";
      return file == which ? &asked : nullptr;
    };
  };
  EXPECT_EQ(openShared("libx.so", folders, "", opens(named))->file, named);
  EXPECT_EQ(openShared("libx.so", folders, "", opens("libx.so"))->file, "libx.so");
  asked.clear();
  EXPECT_EQ(openShared("libx.so", folders, "", opens(known))->file, known);
  EXPECT_EQ(asked, (std::vector<std::string>{named, "libx.so", known}));
}

TEST(CudaLibraries, WhatCannotBeOpenedSaysWhereItWasLookedFor) {
  Folder folder;
  std::string broken = folder.with("named/libx.so");
  std::filesystem::create_directories(folder.path / "known");
  LibraryFolders folders{{folder.path / "named"}, {folder.path / "known"}};
  auto never = [](const std::string &, std::string &reason) -> void * {
    reason = "it is broken";
    return nullptr;
  };
  EXPECT_EQ(openShared("libx.so", folders, "install it", never).status().message(),
            "cannot open libx.so; looked for it in\n  " + broken + ": it is broken\n  the system's loader: it is " +
                "broken\n  " + (folder.path / "known").string() + ": not there\ninstall it");
}

TEST(CudaLibraries, AnotherVersionIsRefused) {
  std::string reason;
  cuda::SharedLibrary self{cuda::openFile("libm.so.6", reason), "libm.so.6"};
  ASSERT_NE(self.handle, nullptr) << reason;
  void *place = nullptr;
  const char *const names[] = {"cublasLtMatmul"};
  void **const places[] = {&place};
  EXPECT_EQ(findFunctions(self, names, places).message(),
            "libm.so.6 has no function cublasLtMatmul: it is of another version; install one for CUDA 13");
}

TEST(CudaProducts, FirstCandidateThatFitsAndRepeats) {
  const Candidate candidates[] = {{false, 0, CUBLASLT_REDUCTION_SCHEME_NONE},
                                  {true, 0, CUBLASLT_REDUCTION_SCHEME_INPLACE},
                                  {true, 0, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE},
                                  {true, 100, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
                                  {true, 10, CUBLASLT_REDUCTION_SCHEME_NONE}};
  EXPECT_EQ(cuda::firstUsable(candidates, 100), 3u);
  EXPECT_EQ(cuda::firstUsable(candidates, 99), 4u);
  EXPECT_EQ(cuda::firstUsable(candidates, 9), 5u);
}

ProductShape square(int64_t size) { return {.m = size, .n = size, .k = size, .lda = size, .ldb = size, .ldc = size}; }

TEST(CudaProducts, ChoiceRespectsTheBound) {
  FakeBlas fake;
  fake.proposals = {{1000, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}, {64}};
  std::vector<float> a(4, 1), b(4, 1), c(4);
  auto scratchOf = [&](uint64_t bound) {
    Result<Product> product = fake.blas.product(square(2), bound);
    EXPECT_TRUE(product.ok() && product->run(nullptr, {.a = a.data(), .b = b.data(), .c = c.data()}).ok());
    return fake.chosenScratch;
  };
  EXPECT_EQ(scratchOf(1000), 1000u);
  EXPECT_EQ(scratchOf(999), 64u);
  EXPECT_EQ(fake.implementations & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32, 0u);
}

TEST(CudaProducts, RefusalGivesBothNumbers) {
  FakeBlas fake;
  fake.proposals = {{0, CUBLASLT_REDUCTION_SCHEME_INPLACE}, {4096}};
  EXPECT_EQ(fake.blas.product(square(2), 1024).status().message(),
            "the product [2, 2] by [2, 2] of f32 into f32: cuBLASLt needs 4096 bytes of scratch, the plan gives 1024; "
            "compile the plan anew with this version");
  fake.proposals = {{0, CUBLASLT_REDUCTION_SCHEME_INPLACE}};
  EXPECT_EQ(fake.blas.product(square(2), 1024).status().message(),
            "the product [2, 2] by [2, 2] of f32 into f32: cuBLASLt has no algorithm that repeats its bits");
}

TEST(CudaProducts, EqualShapesAreChosenOnce) {
  FakeBlas fake;
  EXPECT_TRUE(fake.blas.product(square(2), 0).ok());
  int queries = fake.queries;
  EXPECT_TRUE(fake.blas.product(square(2), 0).ok());
  EXPECT_EQ(fake.queries, queries);
  EXPECT_TRUE(fake.blas.product(square(3), 0).ok());
  EXPECT_GT(fake.queries, queries);
}

TEST(CudaProducts, AddressesDecideBetweenTwoAlgorithms) {
  FakeBlas fake;
  fake.proposals = {{.scratch = 256, .alignment = 16}, {.scratch = 128, .alignment = 4}};
  alignas(16) float memory[64] = {};
  Result<Product> product = fake.blas.product(square(4), 1024);
  ASSERT_TRUE(product.ok());
  ASSERT_TRUE(product->run(nullptr, {.a = memory, .b = memory + 16, .c = memory + 32}).ok());
  EXPECT_EQ(fake.chosenScratch, 256u);
  ASSERT_TRUE(product->run(nullptr, {.a = memory, .b = memory + 17, .c = memory + 36}).ok());
  EXPECT_EQ(fake.chosenScratch, 128u);
  fake.proposals.pop_back();
  product = fake.blas.product(square(4), 512);
  ASSERT_TRUE(product.ok());
  EXPECT_NE(product->run(nullptr, {.a = memory, .b = memory + 17, .c = memory + 36})
                .message()
                .find("lie at no multiples of 16 bytes"),
            std::string::npos);
}

std::vector<float> randomFloats(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> each(-1, 1);
  std::vector<float> made(static_cast<size_t>(count));
  for (float &one : made)
    one = each(engine);
  return made;
}

/// matmul by its definition.
std::vector<double> multiplied(const Signature &call, const std::vector<float> &lhs, const std::vector<float> &rhs,
                               const std::vector<float> &bias) {
  const Dims &l = call.operands[0].dims, &r = call.operands[1].dims, &o = call.operands[3].dims;
  bool tl = call.integer("transposeLhs"), tr = call.integer("transposeRhs");
  int64_t m = o[o.size() - 2], n = o.back(), k = l[l.size() - (tl ? 2 : 1)];
  std::vector<double> result(static_cast<size_t>(call.operands[3].elements()));
  for (int64_t at = 0; at < call.operands[3].elements(); ++at) {
    int64_t batch = at / (m * n), row = at / n % m, column = at % n;
    for (int64_t i = 0; i < k; ++i) {
      int64_t a = batch * m * k + (tl ? i * m + row : row * k + i);
      int64_t b = (r.size() == 2 ? 0 : batch * k * n) + (tr ? column * k + i : i * n + column);
      result[static_cast<size_t>(at)] +=
          static_cast<double>(lhs[static_cast<size_t>(a)]) * static_cast<double>(rhs[static_cast<size_t>(b)]);
    }
    if (!bias.empty())
      result[static_cast<size_t>(at)] += static_cast<double>(bias[static_cast<size_t>(column)]);
  }
  return result;
}

struct Matrices {
  Dims lhs, rhs, result;
  bool transposeLhs, transposeRhs, bias;
};

TEST(CudaProducts, LayoutsOfMatmul) {
  const Matrices cases[] = {{{3, 5}, {5, 7}, {3, 7}, false, false, true},
                            {{5, 3}, {5, 7}, {3, 7}, true, false, false},
                            {{3, 5}, {7, 5}, {3, 7}, false, true, true},
                            {{5, 3}, {7, 5}, {3, 7}, true, true, false},
                            {{2, 3, 5}, {5, 7}, {2, 3, 7}, false, false, true},
                            {{2, 5, 3}, {5, 7}, {2, 3, 7}, true, false, true},
                            {{2, 3, 5}, {2, 5, 7}, {2, 3, 7}, false, false, true},
                            {{2, 5, 3}, {2, 7, 5}, {2, 3, 7}, true, true, false},
                            {{2, 4, 3, 5}, {7, 5}, {2, 4, 3, 7}, false, true, true},
                            {{2, 4, 3, 5}, {2, 4, 7, 5}, {2, 4, 3, 7}, false, true, false},
                            {{1, 1}, {1, 1}, {1, 1}, false, false, true},
                            {{1, 5}, {5, 1}, {1, 1}, false, false, true},
                            {{1, 1, 5}, {1, 5, 1}, {1, 1, 1}, false, false, false}};
  for (const Matrices &one : cases) {
    Signature call{"matmul",
                   {{"transposeLhs", int64_t{one.transposeLhs}}, {"transposeRhs", int64_t{one.transposeRhs}}},
                   {in(one.lhs), in(one.rhs), one.bias ? in({one.result.back()}) : none(), out(one.result)}};
    ASSERT_EQ(check(call), "");
    FakeBlas fake;
    Result<Product> product = fake.blas.product(cuda::matmulShape(call), 0);
    ASSERT_TRUE(product.ok()) << product.status().message();
    std::vector<float> lhs = randomFloats(call.operands[0].elements(), 1),
                       rhs = randomFloats(call.operands[1].elements(), 2),
                       bias = one.bias ? randomFloats(one.result.back(), 3) : std::vector<float>(),
                       result(static_cast<size_t>(call.operands[3].elements()), 0.5f);
    std::vector<double> wanted = multiplied(call, lhs, rhs, bias);
    for (double beta : {0.0, 1.0}) {
      std::vector<float> made = result;
      ASSERT_TRUE(product
                      ->run(nullptr, {.a = lhs.data(),
                                      .b = rhs.data(),
                                      .c = made.data(),
                                      .bias = bias.data(),
                                      .beta = static_cast<float>(beta)})
                      .ok());
      for (size_t i = 0; i < made.size(); ++i)
        EXPECT_NEAR(static_cast<double>(made[i]), wanted[i] + 0.5 * beta, 1e-5);
    }
  }
}

/// A product with everything around it, in bf16, on the host: operands by their places in the call.
struct FusedCall {
  Signature call;
  std::vector<std::vector<float>> values = {};
  std::vector<std::vector<std::byte>> memory = {};

  static float narrow(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
  }
  explicit FusedCall(Signature made) : call(withScratch({std::move(made), {}}, Backend::cuda).call) {
    for (const OperandType &operand : call.operands) {
      values.push_back(operand.effect == Effect::scratch ? std::vector<float>()
                                                         : randomFloats(operand.elements(), values.size() + 1));
      memory.emplace_back(operand.bytes() + 512);
      for (size_t i = 0; i < values.back().size(); ++i) {
        float &value = values.back()[i];
        value = operand.type == DType::bf16 ? narrow(value) : value;
        uint32_t bits = std::bit_cast<uint32_t>(value) >> (operand.type == DType::bf16 ? 16 : 0);
        std::memcpy(at(values.size() - 1) + i * byteSize(operand.type), &bits, byteSize(operand.type));
      }
    }
  }
  std::byte *at(size_t operand) {
    auto address = reinterpret_cast<uintptr_t>(memory[operand].data());
    return reinterpret_cast<std::byte *>((address + 255) / 256 * 256);
  }
  float result(size_t operand, size_t i) {
    uint32_t bits = 0;
    std::memcpy(&bits, at(operand) + i * byteSize(call.operands[operand].type), byteSize(call.operands[operand].type));
    return std::bit_cast<float>(call.operands[operand].type == DType::bf16 ? bits << 16 : bits);
  }
  Status run(const cuda::Run &code, uint64_t accumulate = 0) {
    std::vector<void *> addresses;
    for (size_t i = 0; i < call.operands.size(); ++i)
      addresses.push_back(call.operands[i].present ? at(i) : nullptr);
    return code({.operands = addresses, .accumulate = accumulate});
  }
  std::vector<double> product() const {
    bool sums = call.kernel == "matmul_sums", biased = call.kernel == "matmul_gelu" && call.operands[2].present;
    Signature plain{
        "matmul", call.attributes, {call.operands[0], call.operands[1], none(), call.operands[sums ? 2 : 3]}};
    return multiplied(plain, values[0], values[1], biased ? values[2] : std::vector<float>());
  }
};

double geluOf(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

TEST(CudaProducts, EpiloguesOfFusedProducts) {
  const DType kNarrow = DType::bf16;
  Attributes transposed = {{"transposeRhs", int64_t{1}}};
  for (bool biased : {false, true})
    for (bool stored : {false, true}) {
      OperandType input = out({6, 16}, kNarrow);
      input.present = stored;
      FusedCall gelu({"matmul_gelu",
                      transposed,
                      {in({6, 5}, kNarrow), in({16, 5}, kNarrow), biased ? in({16}, kNarrow) : none(),
                       out({6, 16}, kNarrow), input}});
      ASSERT_EQ(check(gelu.call), "");
      FakeBlas fake;
      Result<cuda::Run> run = cuda::prepareEpilogue(gelu.call, fake.blas);
      ASSERT_TRUE(run.ok()) << run.status().message();
      ASSERT_TRUE(gelu.run(*run).ok());
      EXPECT_EQ(fake.products, 1);
      std::vector<double> product = gelu.product();
      for (size_t i = 0; i < product.size(); ++i) {
        EXPECT_NEAR(static_cast<double>(gelu.result(3, i)), geluOf(product[i]), 0.01);
        EXPECT_NEAR(stored ? static_cast<double>(gelu.result(4, i)) : product[i], product[i], 0.01);
      }
    }
  FusedCall slope({"matmul_gelu_grad",
                   transposed,
                   {in({6, 5}, kNarrow), in({16, 5}, kNarrow), in({6, 16}, kNarrow), out({6, 16}, kNarrow)}});
  FakeBlas fake;
  Result<cuda::Run> run = cuda::prepareEpilogue(slope.call, fake.blas);
  ASSERT_TRUE(run.ok() && slope.run(*run).ok());
  std::vector<double> product = slope.product();
  for (size_t i = 0; i < product.size(); ++i) {
    double x = static_cast<double>(slope.values[2][i]), rise = (geluOf(x + 1e-5) - geluOf(x - 1e-5)) / 2e-5;
    EXPECT_NEAR(static_cast<double>(slope.result(3, i)), product[i] * rise, 0.01);
  }
}

TEST(CudaProducts, SumsBesideAProduct) {
  for (bool left : {false, true}) {
    Attributes attributes = {{"transposeLhs", int64_t{1}}, {"sumsOfLhs", int64_t{left}}};
    FusedCall both({"matmul_sums",
                    attributes,
                    {in({9, 6}, DType::bf16), in({9, 16}, DType::bf16), out({6, 16}), out({left ? 6 : 16})}});
    ASSERT_EQ(check(both.call), "");
    FakeBlas fake;
    Result<cuda::Run> run = cuda::prepareEpilogue(both.call, fake.blas);
    ASSERT_TRUE(run.ok()) << run.status().message();
    ASSERT_TRUE(both.run(*run, /*accumulate=*/4).ok()); // the product adds, its sums do not
    std::vector<double> product = both.product();
    for (size_t i = 0; i < product.size(); ++i)
      EXPECT_NEAR(static_cast<double>(both.result(2, i)), product[i] + static_cast<double>(both.values[2][i]), 1e-5);
    size_t width = left ? 6 : 16;
    for (size_t i = 0; i < width; ++i) {
      double sum = 0;
      for (size_t k = 0; k < 9; ++k)
        sum += static_cast<double>(both.values[left ? 0 : 1][k * width + i]);
      EXPECT_NEAR(static_cast<double>(both.result(3, i)), sum, 1e-5);
    }
  }
}

TEST(CudaProducts, WhatNoEpilogueDoes) {
  FakeBlas fake;
  auto prepared = [&](DType type, Dims rhs) {
    Signature call{
        "matmul_gelu", {}, {in({6, 5}, type), in(rhs, type), none(), out({6, rhs[1]}, type), out({6, rhs[1]}, type)}};
    EXPECT_EQ(check(call), "");
    return cuda::prepareEpilogue(call, fake.blas).ok();
  };
  EXPECT_TRUE(prepared(DType::bf16, {5, 16}));
  EXPECT_FALSE(prepared(DType::bf16, {5, 15})); // lines of what gelu is taken of
  EXPECT_FALSE(prepared(DType::f32, {5, 16}));  // the library's gelu
  fake.fuses = false;
  EXPECT_FALSE(prepared(DType::bf16, {5, 24}));
}

Signature attention(Dims query, Dims key, DType type, Attributes attributes = {}) {
  attributes["scale"] = 0.5;
  Dims output = query;
  return {"attention",
          attributes,
          {in(query, type), in(key, type), in(key, type), none(), none(), none(), none(), none(), none(), none(),
           out(output, type), out({query[0], query[2], query[1]})}};
}
Signature attentionGrad(Dims query, Dims key, DType type, Attributes attributes = {}) {
  attributes["scale"] = 0.5;
  return {"attention_grad",
          attributes,
          {in(query, type), in(query, type), in(key, type), in(key, type), none(), none(), none(), none(), none(),
           none(), none(), in(query, type), in({query[0], query[2], query[1]}), out(query, type), out(key, type),
           out(key, type), none(Effect::write), none(Effect::write)}};
}

TEST(CudaAttention, WhichCallsTheFusedGraphTakes) {
  const Dims query = {2, 64, 8, 64}, key = {2, 64, 2, 64};
  auto fused = [&](const Signature &call) {
    EXPECT_EQ(check(call), "");
    return FusedAttention::of(call).refusal.empty();
  };
  EXPECT_TRUE(fused(attention(query, key, DType::bf16)));
  EXPECT_TRUE(fused(attention(query, key, DType::bf16, {{"minDistance", int64_t{0}}})));
  EXPECT_TRUE(fused(attention(query, key, DType::bf16, {{"minDistance", int64_t{0}}, {"maxDistance", int64_t{31}}})));
  EXPECT_TRUE(fused(attentionGrad(query, key, DType::bf16, {{"minDistance", int64_t{0}}})));
  EXPECT_FALSE(fused(attention(query, key, DType::f32)));
  EXPECT_FALSE(fused(attention(query, key, DType::bf16, {{"prefix", int64_t{3}}})));
  EXPECT_FALSE(fused(attention(query, key, DType::bf16, {{"chunk", int64_t{16}}})));
  EXPECT_FALSE(fused(attention(query, key, DType::bf16, {{"softCap", 30.0}})));
  EXPECT_FALSE(fused(attention({2, 64, 8, 68}, {2, 64, 2, 68}, DType::bf16)));            // width
  EXPECT_FALSE(fused(attention({2, 64, 8, 512}, {2, 64, 2, 512}, DType::bf16)));          // width
  EXPECT_FALSE(fused(attention(query, key, DType::bf16, {{"minDistance", int64_t{1}}}))); // a query sees nothing
  EXPECT_FALSE(fused(attention({2, 64, 8, 64}, {2, 16, 2, 64}, DType::bf16,
                               {{"minDistance", int64_t{0}}, {"maxDistance", int64_t{3}}})));
  Signature masked = attention(query, key, DType::bf16);
  masked.operands[4] = in({2, 64}, DType::boolean);
  EXPECT_FALSE(fused(masked));
  Signature biased = attention(query, key, DType::bf16);
  biased.operands[3] = in({1, 8, 64, 64}, DType::bf16);
  EXPECT_FALSE(fused(biased));
  Signature sunk = attention(query, key, DType::bf16);
  sunk.operands[9] = in({8}, DType::bf16);
  EXPECT_TRUE(fused(sunk));
  EXPECT_EQ(FusedAttention::of(sunk).ofSink, 0u); // the call wants its logsumexp
  sunk.operands[11].present = false;
  EXPECT_EQ(FusedAttention::of(sunk).ofSink, 4u * 2 * 8 * 64);
  EXPECT_FALSE(fused(attention(query, key, DType::bf16, {{"dilation", int64_t{2}}})));
}

TEST(CudaAttention, FusedGradientsAreCutToTheirBound) {
  auto cut = [](int64_t batch, int64_t length, int64_t heads, int64_t groups, int64_t window = INT64_MAX) {
    Signature call = attentionGrad({batch, length, heads, 128}, {batch, length, groups, 128}, DType::bf16,
                                   {{"minDistance", int64_t{0}}, {"maxDistance", window}});
    FusedAttention made = FusedAttention::of(call);
    EXPECT_EQ(made.refusal, "");
    EXPECT_LE(made.library, FusedAttention::kMost + (2u << 20));
    EXPECT_LE(made.total(), workspaceBytes(call, Backend::cuda));
    EXPECT_TRUE(batch % made.rows == 0 && groups % made.groups == 0 && heads / groups % made.heads == 0);
    EXPECT_EQ(made.sums(), made.heads < heads / groups || made.queries < length);
    return std::array{made.rows, made.groups, made.heads, made.queries};
  };
  using Cut = std::array<int64_t, 4>;
  EXPECT_EQ(cut(96, 1024, 32, 8), (Cut{3, 8, 4, 1024}));
  EXPECT_EQ(cut(4, 2048, 32, 8), (Cut{1, 4, 4, 2048}));
  EXPECT_EQ(cut(4, 4096, 32, 8), (Cut{1, 1, 4, 4096}));
  EXPECT_EQ(cut(4, 8192, 32, 8), (Cut{1, 1, 1, 8192}));
  EXPECT_EQ(cut(4, 16384, 32, 8), (Cut{1, 1, 1, 8064}));
  EXPECT_EQ(cut(4, 16384, 32, 32), (Cut{1, 1, 1, 8064}));
  EXPECT_EQ(cut(1, 131072, 32, 8), (Cut{1, 1, 1, 8064}));       // 2 GiB
  EXPECT_EQ(cut(1, 524288, 32, 8), (Cut{1, 1, 1, 1920}));       // and more where 2 GiB are not enough
  EXPECT_EQ(cut(1, 131072, 32, 8, 4095), (Cut{1, 1, 1, 9600})); // pairs within a window alone
}

TEST(CudaAttention, PartsOfACallSeeItsKeys) {
  for (auto [low, high] :
       {std::pair<int64_t, int64_t>{0, INT64_MAX}, {0, 4095}, {-300, 5000}, {INT64_MIN, INT64_MAX}}) {
    const int64_t length = 20000;
    Attributes attributes{{"minDistance", low}, {"maxDistance", high}};
    Signature call = attentionGrad({1, length, 2, 64}, {1, length, 1, 64}, DType::bf16, attributes);
    const FusedAttention cut = FusedAttention::of(call);
    EXPECT_TRUE(cut.sums());
    const Visibility all = Visibility::of(call, length);
    int64_t next = 0;
    for (const cuda::GraphPart &part : cuda::graphParts(call, cut)) {
      const cuda::AttentionGraph &graph = part.graph;
      EXPECT_EQ(part.query, next);
      next += graph.queries;
      EXPECT_TRUE(part.key >= 0 && part.key + graph.keys <= length);
      EXPECT_TRUE(!graph.left || *graph.left >= 1);
      EXPECT_TRUE(!graph.right || *graph.right >= 0);
      for (int64_t query : {int64_t{0}, graph.queries / 2, graph.queries - 1})
        for (int64_t key = 0; key < length; ++key) {
          const int64_t at = key - part.key;
          const bool seen = at >= 0 && at < graph.keys && (!graph.left || at > query - *graph.left) &&
                            (!graph.right || at <= query + *graph.right);
          ASSERT_EQ(seen, all.sees(part.query + query, key)) << part.query + query << " " << key;
        }
    }
    EXPECT_EQ(next, length);
  }
}

TEST(CudaAttention, ScratchHoldsWhicheverWayIsTaken) {
  for (DType type : {DType::f32, DType::bf16})
    for (const Signature &call :
         {attention({2, 300, 8, 64}, {2, 300, 2, 64}, type), attentionGrad({2, 300, 8, 64}, {2, 300, 2, 64}, type)}) {
      EXPECT_GE(workspaceBytes(call, Backend::cuda), AttentionBlocks::of(call).total());
      EXPECT_GE(workspaceBytes(call, Backend::cuda), FusedAttention::of(call).total());
      EXPECT_EQ(workspaceBytes(call, Backend::cpu), call.kernel == "attention" ? 0u : 2u * 300 * 8 * sizeof(float));
    }
  Signature large = attentionGrad({8, 8192, 32, 128}, {8, 8192, 8, 128}, DType::f32);
  EXPECT_LE(workspaceBytes(large, Backend::cuda), 128u << 20);
}

TEST(CudaAttention, BlocksHoldEveryKeyThatIsSeen) {
  const Attributes predicates[] = {{},
                                   {{"minDistance", int64_t{0}}},
                                   {{"minDistance", int64_t{0}}, {"maxDistance", int64_t{100}}},
                                   {{"minDistance", int64_t{0}}, {"prefix", int64_t{40}}},
                                   {{"minDistance", int64_t{0}}, {"chunk", int64_t{333}}},
                                   {{"offset", int64_t{700}}, {"maxDistance", int64_t{5}}},
                                   {{"minDistance", int64_t{2000}}}};
  for (const Attributes &predicate : predicates) {
    Signature call = attention({1, 1000, 2, 8}, {1, 1100, 1, 8}, DType::f32, predicate);
    ASSERT_EQ(check(call), "");
    AttentionBlocks shape = AttentionBlocks::of(call);
    shape.rows = 96; // as if memory were scarce
    Visibility visibility = Visibility::of(call, shape.keys);
    int64_t next = 0;
    for (const cuda::QueryBlock &block : cuda::queryBlocks(shape, visibility)) {
      EXPECT_EQ(block.query, next);
      next += block.queries;
      EXPECT_TRUE(block.key >= 0 && block.keys > 0 && block.key + block.keys <= shape.keys);
      for (int64_t q = block.query; q < next; ++q)
        for (int64_t k = 0; k < shape.keys; ++k)
          EXPECT_TRUE(!visibility.sees(q, k) || (k >= block.key && k < block.key + block.keys)) << q << " " << k;
    }
    EXPECT_EQ(next, shape.queries);
  }
}

/// Bytes of all matrices of a batch lie in what they are a part of.
int64_t extent(int64_t rows, int64_t columns, int64_t line, int64_t batches, int64_t step) {
  return (batches - 1) * step + (rows - 1) * line + columns;
}

TEST(CudaAttention, ProductsStayInTheirOperands) {
  Signature call = attentionGrad({2, 50, 6, 16}, {2, 40, 3, 16}, DType::bf16);
  AttentionBlocks shape = AttentionBlocks::of(call);
  shape.rows = 20;
  cuda::QueryBlock block{40, 10, 0, 40};
  int64_t query = 10 * 6 * 16, key = 40 * 3 * 16, scores = 6 * 20 * shape.line;
  auto fits = [&](const ProductShape &product, int64_t a, int64_t b, int64_t c) {
    EXPECT_EQ(product.batches, 3);
    EXPECT_LE(extent(product.transposeA ? product.k : product.m, product.transposeA ? product.m : product.k,
                     product.lda, 3, product.stepA),
              a);
    EXPECT_LE(extent(product.transposeB ? product.n : product.k, product.transposeB ? product.k : product.n,
                     product.ldb, 3, product.stepB),
              b);
    EXPECT_LE(extent(product.m, product.n, product.ldc, 3, product.stepC), c);
  };
  fits(cuda::AttentionProducts::scores(shape, block), query, key, scores);
  fits(cuda::AttentionProducts::slopes(shape, block), query, key, scores);
  fits(cuda::AttentionProducts::result(shape, block), scores, key, query);
  fits(cuda::AttentionProducts::dvalue(shape, block), scores, query, key);
  fits(cuda::AttentionProducts::dquery(shape, block), scores, key, query);
  fits(cuda::AttentionProducts::dkey(shape, block), scores, query, key);
}

/// A convolution of images [n, c, ..] with kernels [m, c / groups, ..], or one of its gradients.
struct Convolved {
  Dims image, kernel, result, strides, low, high;
  int64_t groups = 1;
  Signature call(const std::string &name, DType type, DType written, DType bias = DType::f32) const {
    Signature made{name,
                   {{"strides", strides},
                    {"dilations", Dims(strides.size(), 1)},
                    {"low", low},
                    {"high", high},
                    {"groups", groups}},
                   {}};
    if (name == "conv")
      made.operands = {in(image, type), in(kernel, type), in({kernel[0]}, bias), out(result, written)};
    else if (name == "conv_data_grad")
      made.operands = {in(result, type), in(kernel, type), out(image, written)};
    else
      made.operands = {in(result, type), in(image, type), out(kernel, written)};
    EXPECT_EQ(check(made), "");
    return made;
  }
  cuda::ConvolutionGraph graph() const { return cuda::ConvolutionGraph::of(call("conv", DType::f32, DType::f32)); }
};

TEST(CudaConvolution, PadsBehindAreAsThoseInFrontWhereThatIsTheSame) {
  auto high = [](int64_t image, int64_t kernel, int64_t result, int64_t stride, int64_t low, int64_t high) {
    return Convolved{{1, 1, image}, {1, 1, kernel}, {1, 1, result}, {stride}, {low}, {high}}.graph().high.back();
  };
  EXPECT_EQ(high(56, 3, 28, 2, 1, 0), 1); // the last element is not seen, nor what lies behind it
  EXPECT_EQ(high(56, 3, 28, 2, 1, 1), 1);
  EXPECT_EQ(high(56, 3, 28, 2, 0, 1), 1);
  EXPECT_EQ(high(57, 3, 28, 2, 0, 1), 0);
  EXPECT_EQ(high(8, 4, 8, 1, 3, 0), 0); // causal
  EXPECT_EQ(high(9, 2, 3, 3, 0, 1), 0);
}

TEST(CudaConvolution, GraphsHaveTwoDimensionsOrThree) {
  const cuda::ConvolutionGraph
      line = Convolved{{2, 6, 9}, {4, 3, 2}, {2, 4, 8}, {1}, {0}, {0}, 2}.graph(),
      plane = Convolved{{2, 6, 9, 5}, {4, 6, 2, 1}, {2, 4, 8, 5}, {1, 1}, {0, 0}, {0, 0}}.graph(),
      block = Convolved{{1, 1, 1, 4, 4}, {1, 1, 1, 1, 1}, {1, 1, 3, 4, 4}, {1, 1, 1}, {1, 0, 0}, {1, 0, 0}}.graph();
  EXPECT_EQ(line.image, (Dims{2, 6, 1, 9}));
  EXPECT_EQ(line.kernel, (Dims{4, 3, 1, 2}));
  EXPECT_EQ(line.result, (Dims{2, 4, 1, 8}));
  EXPECT_EQ(line.groups, 2);
  EXPECT_EQ(plane.image, (Dims{2, 6, 9, 5}));
  EXPECT_EQ(block.image, (Dims{1, 1, 1, 4, 4}));
  EXPECT_EQ(block.low, (Dims{1, 0, 0}));
}

TEST(CudaConvolution, ScratchHoldsWhatTheLibraryCopies) {
  const Convolved shape{{8, 64, 56, 56}, {64, 64, 3, 3}, {8, 64, 56, 56}, {1, 1}, {1, 1}, {1, 1}};
  auto bytes = [&](const char *name, DType type) {
    return workspaceBytes(shape.call(name, type, name == std::string("conv_weight_grad") ? DType::f32 : type, type),
                          Backend::cuda);
  };
  const uint64_t image = 8 * 64 * 56 * 56 * 2, kernel = 64 * 64 * 9;
  EXPECT_LE(bytes("conv", DType::f32), 2u << 20); // as it lies
  EXPECT_LE(bytes("conv_data_grad", DType::f32), 2u << 20);
  EXPECT_GE(bytes("conv", DType::bf16), 2 * image + kernel * 2);
  EXPECT_EQ(bytes("conv_data_grad", DType::bf16), bytes("conv", DType::bf16));
  EXPECT_GE(bytes("conv_weight_grad", DType::bf16), 2 * image + kernel * 2 * 2);
  EXPECT_GE(bytes("conv_weight_grad", DType::f32), 4 * image + kernel * 4 * 2);
  EXPECT_LE(bytes("conv_weight_grad", DType::f32), 4 * image + kernel * 4 * 70 + (2u << 20));
  EXPECT_EQ(workspaceBytes(shape.call("conv_data_grad", DType::bf16, DType::f32), Backend::cuda),
            kernel * 2); // the CPU's
}

/// Points, too, which the GPU's library multiplies as they lie.
TEST(CudaConvolution, APlanForAGpuHasWhatTheCpuNeeds) {
  const Convolved shape{{4, 64, 14, 14}, {256, 64, 1, 1}, {4, 256, 14, 14}, {1, 1}, {0, 0}, {0, 0}};
  for (DType type : {DType::f32, DType::bf16})
    for (const char *name : {"conv", "conv_data_grad", "conv_weight_grad"}) {
      const Signature call = shape.call(name, type, type);
      EXPECT_GE(workspaceBytes(call, Backend::cuda), workspaceBytes(call, Backend::cpu)) << name;
    }
  EXPECT_EQ(workspaceBytes(shape.call("conv_data_grad", DType::bf16, DType::bf16), Backend::cpu), 256u * 64 * 2);
}

TEST(CudaConvolution, WhatTheGraphCannotDoIsRefused) {
  const Convolved shape{{2, 3, 8}, {4, 3, 2}, {2, 4, 7}, {1}, {0}, {0}};
  auto refusal = [&](const char *name, DType type, DType written, DType bias) {
    return GraphConvolution::of(shape.call(name, type, written, bias)).refusal;
  };
  const DType narrow = DType::bf16, wide = DType::f32;
  EXPECT_EQ(refusal("conv", narrow, narrow, narrow), "");
  EXPECT_EQ(refusal("conv", wide, wide, wide), "");
  EXPECT_EQ(refusal("conv_weight_grad", narrow, wide, wide), "");
  EXPECT_EQ(refusal("conv", narrow, wide, narrow), "its result is in 32 bits and its operands are not");
  EXPECT_EQ(refusal("conv_data_grad", narrow, wide, wide), "its result is in 32 bits and its operands are not");
  EXPECT_EQ(refusal("conv", narrow, narrow, wide), "its bias is in 32 bits and its operands are not");
}

TEST(CudaHead, ScratchFollowsTypesAndChunks) {
  auto head = [](DType type, DType dweight, int64_t chunk) {
    Signature call{"linear_cross_entropy_grad",
                   {{"chunk", chunk}},
                   {in({48, 8}, type), in({64, 8}, type), none(), in({48}, DType::i64),
                    in({Scalars::kCount}, DType::f64), out({}), out({48, 8}, type), out({64, 8}, dweight),
                    none(Effect::write)}};
    HeadScratch sizes = HeadScratch::of(call);
    EXPECT_EQ(sizes.total(), workspaceBytes(call, Backend::cuda));
    EXPECT_EQ(sizes.losses, 48 * 8u);
    return sizes;
  };
  EXPECT_EQ(head(DType::f32, DType::f32, 16).logits, 16 * 64 * 4u);
  EXPECT_EQ(head(DType::f32, DType::f32, 16).gradients, 0u);
  EXPECT_EQ(head(DType::bf16, DType::f32, 16).gradients, 16 * 64 * 2u);
  EXPECT_EQ(head(DType::bf16, DType::f32, 16).weightSums, 0u);
  EXPECT_EQ(head(DType::bf16, DType::bf16, 16).weightSums, 64 * 8 * 4u);
  EXPECT_EQ(head(DType::bf16, DType::bf16, 0).weightSums, 0u);
  EXPECT_EQ(HeadScratch::line(64), 64);
  EXPECT_EQ(HeadScratch::line(50257), 50264);
}

TEST(CudaHead, ProductsByTheirLayout) {
  for (int64_t transposed : {0, 1}) {
    Signature call{"linear_cross_entropy_grad",
                   {{"transposed", transposed}},
                   {in({5, 3}), transposed ? in({3, 7}) : in({7, 3}), none(), in({5}, DType::i64),
                    in({Scalars::kCount}, DType::f64), out({}), out({5, 3}), transposed ? out({3, 7}) : out({7, 3}),
                    none(Effect::write)}};
    ASSERT_EQ(check(call), "");
    cuda::HeadProducts shapes = cuda::HeadProducts::of(call, 5);
    std::vector<float> hidden = randomFloats(15, 1), weight = randomFloats(21, 2), logits(40), dhidden(15), dweight(21);
    auto at = [](const std::vector<float> &matrix, int64_t index) {
      return static_cast<double>(matrix[static_cast<size_t>(index)]);
    };
    auto w = [&](int64_t c, int64_t d) { return transposed ? d * 7 + c : c * 3 + d; };
    FakeBlas fake;
    auto run = [&](const ProductShape &shape, const std::vector<float> &a, const std::vector<float> &b,
                   std::vector<float> &c) {
      ASSERT_TRUE(fake.blas.product(shape, 0)->run(nullptr, {.a = a.data(), .b = b.data(), .c = c.data()}).ok());
    };
    run(shapes.logits, hidden, weight, logits);
    run(shapes.dhidden, logits, weight, dhidden);
    run(shapes.dweight, transposed ? hidden : logits, transposed ? logits : hidden, dweight);
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t c = 0; c < 7; ++c) {
        double sum = 0;
        for (int64_t d = 0; d < 3; ++d)
          sum += at(hidden, r * 3 + d) * at(weight, w(c, d));
        EXPECT_NEAR(at(logits, r * 8 + c), sum, 1e-5);
      }
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t d = 0; d < 3; ++d) {
        double sum = 0;
        for (int64_t c = 0; c < 7; ++c)
          sum += at(logits, r * 8 + c) * at(weight, w(c, d));
        EXPECT_NEAR(at(dhidden, r * 3 + d), sum, 1e-4);
      }
    for (int64_t c = 0; c < 7; ++c)
      for (int64_t d = 0; d < 3; ++d) {
        double sum = 0;
        for (int64_t r = 0; r < 5; ++r)
          sum += at(logits, r * 8 + c) * at(hidden, r * 3 + d);
        EXPECT_NEAR(at(dweight, w(c, d)), sum, 1e-4);
      }
  }
}

} // namespace
} // namespace mt::kernels::test
