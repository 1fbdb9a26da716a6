#include "kernels/cpu/ChainCode.h"

#if defined(__x86_64__)
#include <hwy/targets.h>
#include <xbyak/xbyak.h>

#include <bit>
#include <map>
#include <optional>

namespace mt::kernels::cpu {
namespace {

using Xbyak::Zmm;

constexpr int kLanes = 16, kOwn = 22; ///< values at once: the other registers are for numbers and what passes
constexpr size_t kNever = SIZE_MAX;

/// How the instructions that compare tell relations.
enum Relation : uint8_t {
  eqOrdered = 0x00,
  unordered = 0x03,
  neUnordered = 0x04,
  lt = 0x11,
  le = 0x12,
  ge = 0x1d,
  gt = 0x1e
};
/// Where rounding goes, without a word about what is lost.
enum Rounding : uint8_t { toNearest = 0x08, down = 0x09, up = 0x0a };

/// Writes code that is called as void(reads, writes, count).
class Writer : public Xbyak::CodeGenerator {
public:
  explicit Writer(const Chain &chain)
      : CodeGenerator(Xbyak::DEFAULT_MAX_CODE_SIZE, Xbyak::AutoGrow), chain(chain), reads(chain.readsBf16.size()),
        lastUse(reads + chain.operations.size(), kNever) {
    for (size_t i = 0; i < chain.operations.size(); ++i)
      for (size_t value : chain.operations[i].operands)
        lastUse[value] = i;
  }

  /// False: registers do not suffice.
  bool write() {
    Xbyak::Label loop, tail, end;
    xor_(ecx, ecx);
    L(loop);
    lea(rax, ptr[rcx + kLanes]);
    cmp(rax, rdx);
    ja(tail, T_NEAR);
    if (!writeVector(false))
      return false;
    add(rcx, kLanes);
    jmp(loop, T_NEAR);
    L(tail);
    sub(rdx, rcx);
    jbe(end, T_NEAR);
    mov(eax, -1);
    bzhi(eax, eax, edx);
    kmovw(k1, eax);
    writeVector(true);
    L(end);
    vzeroupper();
    ret();
    writeNumbers();
    readyRE();
    return true;
  }

private:
  const Chain &chain; ///< is there until write() returns
  const size_t reads;
  std::vector<size_t> lastUse;               ///< by value: the operation; kNever: none
  std::vector<std::optional<int>> registers; ///< of the values that are there
  std::vector<int> free;
  std::map<uint32_t, Xbyak::Label> numbers; ///< by bits
  bool masked = false;
  const Zmm t0 = Zmm(kOwn), t1 = Zmm(kOwn + 1);

  /// The elements from rcx on; `masked`: those of k1.
  bool writeVector(bool isTail) {
    masked = isTail;
    registers.assign(lastUse.size(), std::nullopt);
    free.clear();
    for (int i = kOwn; i-- > 0;)
      free.push_back(i);
    for (size_t i = 0; i < chain.operations.size(); ++i)
      if (!writeOperation(i))
        return false;
    return true;
  }

  std::optional<Zmm> take(size_t value) {
    if (free.empty())
      return std::nullopt;
    registers[value] = free.back();
    free.pop_back();
    return Zmm(*registers[value]);
  }
  Zmm at(size_t value) const { return Zmm(*registers[value]); }
  Zmm maskedIfTail(const Zmm &to) const { return masked ? to | k1 | T_z : to; }

  bool load(size_t value) {
    const std::optional<Zmm> to = take(value);
    if (!to)
      return false;
    mov(rax, ptr[rdi + 8 * value]);
    if (!chain.readsBf16[value]) {
      vmovups(maskedIfTail(*to), ptr[rax + rcx * 4]);
      return true;
    }
    vpmovzxwd(maskedIfTail(*to), ptr[rax + rcx * 2]);
    vpslld(*to, *to, 16);
    return true;
  }

  bool writeOperation(size_t index) {
    const Chain::Operation &operation = chain.operations[index];
    for (size_t value : operation.operands)
      if (!registers[value] && !load(value))
        return false;
    const size_t result = reads + index;
    const std::optional<Zmm> to = take(result); // none of its operands': they are read until it is done
    if (!to)
      return false;
    std::vector<Zmm> in;
    for (size_t value : operation.operands)
      in.push_back(at(value));
    compute(operation.function, *to, in);
    if (operation.isRounded)
      round(*to);
    for (size_t value : operation.operands)
      if (lastUse[value] == index)
        release(value);
    for (size_t w = 0; w < chain.writes.size(); ++w)
      if (chain.writes[w].value == result)
        store(w, *to);
    if (lastUse[result] == kNever)
      release(result);
    return true;
  }
  void release(size_t value) {
    if (registers[value])
      free.push_back(*registers[value]);
    registers[value].reset();
  }

  void store(size_t write, const Zmm &from) {
    mov(rax, ptr[rsi + 8 * write]);
    if (!chain.writes[write].inBf16) {
      masked ? vmovups(ptr[rax + rcx * 4] | k1, from) : vmovups(ptr[rax + rcx * 4], from);
      return;
    }
    vpsrld(t0, from, 16);
    masked ? vpmovdw(ptr[rax + rcx * 2] | k1, t0) : vpmovdw(ptr[rax + rcx * 2], t0);
  }

  /// A number in every lane.
  Xbyak::Address number(uint32_t bits) { return ptr_b[rip + numbers[bits]]; }
  void writeNumbers() {
    align(4);
    for (auto &[bits, label] : numbers) {
      L(label);
      dd(bits);
    }
  }

  /// As nearest(): to the upper half, ties to even; NaN stays NaN.
  void round(const Zmm &x) {
    vcmpps(k2, x, x, unordered);
    vpsrld(t0, x, 16);
    vpandd(t0, t0, number(uint32_t{1}));
    vpaddd(t0, t0, number(uint32_t{0x7fff}));
    vpaddd(t0, t0, x);
    vpord(t0 | k2, x, number(uint32_t{0x400000}));
    vpandd(x, t0, number(uint32_t{0xffff0000}));
  }

  /// 1 in every lane, or in those of a mask.
  void one(const Zmm &to) { vbroadcastss(to, dword[rip + numbers[std::bit_cast<uint32_t>(1.0F)]]); }
  void compare(const Zmm &to, const Zmm &a, const Zmm &b, Relation relation) {
    vcmpps(k2, a, b, relation);
    one(to | k2 | T_z);
  }
  void zero(const Zmm &to) { vpxord(to, to, to); }

  void compute(const std::string &function, const Zmm &to, const std::vector<Zmm> &in) {
    functions().at(function)(*this, to, in);
  }

  using In = const std::vector<Zmm> &;
  using Function = void (*)(Writer &, const Zmm &to, In in);
  template <Relation relation> static void comparing(Writer &w, const Zmm &to, In in) {
    w.compare(to, in[0], in[1], relation);
  }
  template <Rounding where> static void rounding(Writer &w, const Zmm &to, In in) { w.vrndscaleps(to, in[0], where); }
  /// The first where it is NaN or stands so to the second, else the second.
  template <Relation relation> static void choosing(Writer &w, const Zmm &to, In in) {
    w.vcmpps(w.k2, in[0], in[1], relation);
    w.vcmpps(w.k3, in[0], in[0], unordered);
    w.korw(w.k2, w.k2, w.k3);
    w.vblendmps(to | w.k2, in[1], in[0]);
  }
  static void inverse(Writer &w, const Zmm &to, const Zmm &of) {
    w.one(w.t0);
    w.vdivps(to, w.t0, of);
  }

public:
  /// How each is computed, by name.
  static const std::map<std::string, Function> &functions();
};

const std::map<std::string, Writer::Function> &Writer::functions() {
  static const std::map<std::string, Function> all = {
      {"cast", [](Writer &w, const Zmm &to, In in) { w.vmovaps(to, in[0]); }},
      {"add", [](Writer &w, const Zmm &to, In in) { w.vaddps(to, in[0], in[1]); }},
      {"sub", [](Writer &w, const Zmm &to, In in) { w.vsubps(to, in[0], in[1]); }},
      {"mul", [](Writer &w, const Zmm &to, In in) { w.vmulps(to, in[0], in[1]); }},
      {"div", [](Writer &w, const Zmm &to, In in) { w.vdivps(to, in[0], in[1]); }},
      {"maximum", choosing<gt>},
      {"minimum", choosing<lt>},
      {"compare.eq", comparing<eqOrdered>},
      {"compare.ne", comparing<neUnordered>},
      {"compare.lt", comparing<lt>},
      {"compare.le", comparing<le>},
      {"compare.gt", comparing<gt>},
      {"compare.ge", comparing<ge>},
      {"select",
       [](Writer &w, const Zmm &to, In in) {
         w.zero(w.t0);
         w.vcmpps(w.k2, in[0], w.t0, neUnordered);
         w.vblendmps(to | w.k2, in[2], in[1]);
       }},
      {"neg", [](Writer &w, const Zmm &to, In in) { w.vpxord(to, in[0], w.number(uint32_t{0x80000000})); }},
      {"abs", [](Writer &w, const Zmm &to, In in) { w.vpandd(to, in[0], w.number(uint32_t{0x7fffffff})); }},
      {"sign",
       [](Writer &w, const Zmm &to, In in) {
         w.zero(w.t0);
         w.compare(w.t1, in[0], w.t0, lt);
         w.compare(to, in[0], w.t0, gt);
         w.vsubps(to, to, w.t1);
       }},
      {"sqrt", [](Writer &w, const Zmm &to, In in) { w.vsqrtps(to, in[0]); }},
      {"rsqrt",
       [](Writer &w, const Zmm &to, In in) {
         w.vsqrtps(w.t1, in[0]);
         inverse(w, to, w.t1);
       }},
      {"reciprocal", [](Writer &w, const Zmm &to, In in) { inverse(w, to, in[0]); }},
      {"floor", rounding<down>},
      {"ceil", rounding<up>},
      {"round", rounding<toNearest>},
      {"is_nan", [](Writer &w, const Zmm &to, In in) { w.compare(to, in[0], in[0], unordered); }},
      {"relu",
       [](Writer &w, const Zmm &to, In in) {
         w.zero(w.t0);
         w.vcmpps(w.k2, in[0], in[0], unordered);
         w.vmaxps(to, in[0], w.t0);
         w.vmovaps(to | w.k2, in[0]);
       }},
      {"activation_grad.relu", [](Writer &w, const Zmm &to, In in) {
         w.zero(w.t0);
         w.compare(to, in[0], w.t0, gt);
         w.vmulps(to, to, in[1]);
       }}};
  return all;
}

class Code : public ChainCode {
public:
  explicit Code(const Chain &chain) : writer(std::make_unique<Writer>(chain)) {}
  bool write() { return writer->write(); }
  void run(const void *const *reads, void *const *writes, int64_t count) const override {
    writer->getCode<void (*)(const void *const *, void *const *, int64_t)>()(reads, writes, count);
  }

private:
  std::unique_ptr<Writer> writer;
};

} // namespace

bool ChainCode::knows(const std::string &function) {
  return (hwy::SupportedTargets() & HWY_AVX3) != 0 && Writer::functions().contains(function);
}

std::shared_ptr<const ChainCode> ChainCode::make(const Chain &chain) {
  try {
    auto code = std::make_shared<Code>(chain);
    return code->write() ? code : nullptr;
  } catch (const Xbyak::Error &) {
    return nullptr; // this process may not have memory that is executed
  }
}

} // namespace mt::kernels::cpu

#else

namespace mt::kernels::cpu {

bool ChainCode::knows(const std::string &) { return false; }
std::shared_ptr<const ChainCode> ChainCode::make(const Chain &) { return nullptr; }

} // namespace mt::kernels::cpu
#endif
