#include "kernels/cpu/ChainCode.h"

#include "kernels/cpu/ChainSteps.h"
#include "kernels/cpu/RoundingUnit.h"

#if defined(__x86_64__)
#include <hwy/targets.h>
#include <xbyak/xbyak.h>

#include <algorithm>
#include <array>
#include <bit>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace mt::kernels::cpu {
namespace {

using Xbyak::Zmm;

constexpr int kLanes = 16, kOwn = 30; ///< values at once: the other registers are for what passes
constexpr size_t kNever = SIZE_MAX;

/// How the instructions that compare tell relations.
enum Relation : uint8_t {
  eqOrdered = 0x00,
  unordered = 0x03,
  neUnordered = 0x04,
  notLess = 0x15,
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
      : CodeGenerator(Xbyak::DEFAULT_MAX_CODE_SIZE, Xbyak::AutoGrow), chain(chain), steps(chain),
        reads(chain.readsBf16.size()), lastUse(reads + steps.steps.size(), kNever), places(lastUse.size()) {
    for (size_t i = 0; i < steps.steps.size(); ++i)
      for (size_t value : steps.steps[i].in)
        lastUse[value] = i;
    for (size_t w = 0; w < chain.writes.size(); ++w)
      places[steps.values[chain.writes[w].value]].push_back(w);
  }

  /// False: registers do not suffice.
  bool write() {
    const size_t needed = registersNeeded();
    if (needed > kOwn)
      return false;
    Xbyak::Label loop, tail, end;
    xor_(ecx, ecx);
    keepNumbers(kOwn - needed);
    align(64);
    L(loop);
    lea(rax, ptr[rcx + kLanes]);
    cmp(rax, rdx);
    ja(tail, T_NEAR);
    writeVector(false);
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
    writeSubnormals();
    writeNumbers();
    readyRE();
    return true;
  }

private:
  const Chain &chain; ///< is there until write() returns, as what its steps name
  const ChainSteps steps;
  const size_t reads;
  std::vector<size_t> lastUse;               ///< by value: the step; kNever: none
  std::vector<std::vector<size_t>> places;   ///< by value: the chain's writes
  std::vector<std::optional<int>> registers; ///< of the values that are there
  std::vector<int> free;
  std::map<uint32_t, Xbyak::Label> numbers; ///< by bits
  std::vector<size_t> kept;                 ///< numbers that have the last registers all the time
  bool masked = false;
  const Zmm t0 = Zmm(kOwn), t1 = Zmm(kOwn + 1);

  /// With numbers that are brought whenever they are needed.
  size_t registersNeeded() const {
    std::set<size_t> live;
    size_t most = 0;
    for (size_t i = 0; i < steps.steps.size(); ++i) {
      const Step &step = steps.steps[i];
      if (step.isNumber())
        continue;
      live.insert(step.in.begin(), step.in.end());
      live.insert(reads + i);
      most = std::max(most, live.size());
      std::erase_if(live,
                    [&](size_t value) { return isNumber(value) || lastUse[value] == i || lastUse[value] == kNever; });
    }
    return most;
  }

  void keepNumbers(size_t most) {
    for (size_t i = 0; i < steps.steps.size() && kept.size() < most; ++i)
      if (steps.steps[i].isNumber()) {
        bring(reads + i, Zmm(kOwn - 1 - static_cast<int>(kept.size())));
        kept.push_back(reads + i);
      }
  }

  /// The elements from rcx on; `masked`: those of k1.
  void writeVector(bool isTail) {
    masked = isTail;
    registers.assign(lastUse.size(), std::nullopt);
    free.clear();
    for (size_t i = 0; i < kept.size(); ++i)
      registers[kept[i]] = kOwn - 1 - static_cast<int>(i);
    for (int i = kOwn - static_cast<int>(kept.size()); i-- > 0;)
      free.push_back(i);
    for (size_t i = 0; i < steps.steps.size(); ++i)
      writeStep(i);
  }

  Zmm take(size_t value) {
    registers[value] = free.back();
    free.pop_back();
    return at(value);
  }
  Zmm at(size_t value) const { return Zmm(*registers[value]); }
  Zmm maskedIfTail(const Zmm &to) const { return masked ? to | k1 | T_z : to; }

  bool isNumber(size_t value) const { return value >= reads && steps.steps[value - reads].isNumber(); }

  void bring(size_t value, const Zmm &to) {
    if (isNumber(value))
      return vbroadcastss(to, dword[rip + numbers[steps.steps[value - reads].bits]]);
    mov(rax, ptr[rdi + 8 * value]);
    if (!chain.readsBf16[value])
      return vmovups(maskedIfTail(to), ptr[rax + rcx * 4]);
    vpmovzxwd(maskedIfTail(to), ptr[rax + rcx * 2]);
    vpslld(to, to, 16);
  }

  void writeStep(size_t index) {
    const Step &step = steps.steps[index];
    if (step.isNumber())
      return; // it is brought when it is needed
    for (size_t value : step.in)
      if (!registers[value])
        bring(value, take(value));
    const size_t result = reads + index;
    if (step.name == ".mul_add" || step.name == ".neg_mul_add") {
      writeMulAdd(index, step.name == ".neg_mul_add");
    } else if (step.name == ".to_bf16") {
      writeRounding(index);
    } else {
      std::vector<Zmm> in;
      for (size_t value : step.in)
        in.push_back(at(value));
      functions().at(std::string(step.name))(*this, take(result), in); // into none of its operands
    }
    for (size_t value : step.in)
      if (endsAt(value, index))
        release(value);
    for (size_t write : places[result])
      if (registers[result]) // else it is there
        store(write, at(result));
    if (lastUse[result] == kNever)
      release(result);
  }
  /// Whether nobody reads what is in a value's register after a step.
  bool endsAt(size_t value, size_t index) const {
    return isNumber(value) ? std::ranges::find(kept, value) == kept.end() : lastUse[value] == index;
  }

  /// a b + c or c - a b, in the register of an operand that ends here, if there is one.
  void writeMulAdd(size_t index, bool negates) {
    auto [a, b, c] = std::array{steps.steps[index].in[0], steps.steps[index].in[1], steps.steps[index].in[2]};
    const size_t result = reads + index;
    const auto isFree = [&](size_t value) {
      return endsAt(value, index) && std::ranges::count(steps.steps[index].in, value) == 1;
    };
    if (!isFree(a) && isFree(b))
      std::swap(a, b);
    if (!isFree(a) && isFree(c)) {
      negates ? vfnmadd231ps(at(c), at(a), at(b)) : vfmadd231ps(at(c), at(a), at(b));
      return become(c, result);
    }
    const bool inPlace = isFree(a);
    if (!inPlace)
      vmovaps(take(result), at(a));
    const Zmm to = inPlace ? at(a) : at(result);
    negates ? vfnmadd213ps(to, at(b), at(c)) : vfmadd213ps(to, at(b), at(c));
    if (inPlace)
      become(a, result);
  }
  /// As nearest(): to the upper half, ties to even; NaN stays NaN. By the processor's unit for it, if there is one,
  /// which takes subnormal numbers for zero: those are rounded as integers.
  void writeRounding(size_t index) {
    const size_t result = reads + index;
    const Zmm in = at(steps.steps[index].in[0]);
    if (!roundsByUnit())
      return roundIntegers(take(result), in);
    constexpr uint8_t kSubnormal = 0x20;
    const Xbyak::Ymm halves(t0.getIdx());
    vcvtneps2bf16(halves, in);
    vfpclassps(k2, in, kSubnormal);
    kortestw(k2, k2);
    Subnormal &rare = subnormals.emplace_back(in);
    jnz(rare.from, T_NEAR);
    L(rare.back);
    const bool isStored = lastUse[result] == kNever &&
                          std::ranges::all_of(places[result], [&](size_t write) { return chain.writes[write].inBf16; });
    if (!isStored) {
      vpmovzxwd(take(result), halves);
      return vpslld(at(result), at(result), 16);
    }
    for (size_t write : places[result]) {
      mov(rax, ptr[rsi + 8 * write]);
      masked ? vmovdqu16(ptr[rax + rcx * 2] | k1, halves) : vmovdqu16(ptr[rax + rcx * 2], halves);
    }
  }
  void roundIntegers(const Zmm &to, const Zmm &in) {
    vcmpps(k2, in, in, unordered);
    vpsrld(to, in, 16);
    vpandd(to, to, number(uint32_t{1}));
    vpaddd(to, to, number(uint32_t{0x7fff}));
    vpaddd(to, to, in);
    vpord(to | k2, in, number(uint32_t{0x400000}));
    vpandd(to, to, number(uint32_t{0xffff0000}));
  }
  /// Behind all else: what rounds where a number is subnormal.
  struct Subnormal {
    Zmm in;
    Xbyak::Label from = {}, back = {};
    explicit Subnormal(const Zmm &in) : in(in) {}
  };
  std::list<Subnormal> subnormals;
  void writeSubnormals() {
    for (Subnormal &rare : subnormals) {
      L(rare.from);
      roundIntegers(t1, rare.in);
      vpsrld(t1, t1, 16);
      vpmovdw(Xbyak::Ymm(t0.getIdx()), t1);
      jmp(rare.back, T_NEAR);
    }
  }

  void become(size_t operand, size_t result) { registers[result] = std::exchange(registers[operand], std::nullopt); }

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

  /// 1 in every lane, or in those of a mask.
  void one(const Zmm &to) { vbroadcastss(to, dword[rip + numbers[std::bit_cast<uint32_t>(1.0F)]]); }
  void compare(const Zmm &to, const Zmm &a, const Zmm &b, Relation relation) {
    vcmpps(k2, a, b, relation);
    one(to | k2 | T_z);
  }
  void zero(const Zmm &to) { vpxord(to, to, to); }

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
      {".select_less",
       [](Writer &w, const Zmm &to, In in) {
         w.vcmpps(w.k2, in[0], in[1], lt);
         w.vblendmps(to | w.k2, in[3], in[2]);
       }},
      {".min", [](Writer &w, const Zmm &to, In in) { w.vminps(to, in[0], in[1]); }},
      {".max", [](Writer &w, const Zmm &to, In in) { w.vmaxps(to, in[0], in[1]); }},
      {".copy_sign",
       [](Writer &w, const Zmm &to, In in) {
         constexpr uint8_t kFirstChooses = 0xca; // of the two others, bit by bit
         w.vpbroadcastd(to, w.dword[w.rip + w.numbers[uint32_t{0x80000000}]]);
         w.vpternlogd(to, in[1], in[0], kFirstChooses);
       }},
      {".times_power_of_two",
       [](Writer &w, const Zmm &to, In in) {
         w.vcmpps(w.k2, in[1], in[2], notLess);
         w.vscalefps(to | w.k2 | w.T_z, in[0], in[1]);
       }},
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
  static const bool hasVectors = (hwy::SupportedTargets() & HWY_AVX3) != 0; // which asks the processor every time
  return hasVectors && !function.starts_with('.') &&
         (isOfSteps(function) || Writer::functions().contains(function));
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
