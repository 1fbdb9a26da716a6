#include "compiler/target/Rates.h"

#include "compiler/target/CostModel.h"
#include "kernels/SignatureText.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mt::target {
namespace {

// Squares of distances: of another type, of another flag or choice, of another number that is an attribute.
constexpr double kOtherType = 9, kOtherChoice = 1, kOtherNumber = 0.1;
constexpr double kSame = 1e-12;
constexpr size_t kMostCalls = 100'000;

/// Whether an attribute has one value in both; a flag that is not there is not set.
bool alike(const kernels::AttributeSpec &spec, const kernels::Attributes &a, const kernels::Attributes &b) {
  const auto left = a.find(spec.name), right = b.find(spec.name);
  if (left != a.end() && right != b.end())
    return left->second == right->second;
  if (left == a.end() && right == b.end())
    return true;
  const kernels::Attribute &stated = left != a.end() ? left->second : right->second;
  return spec.kind == kernels::AttributeSpec::flag && stated == kernels::Attribute(int64_t{0});
}

/// The plane that fits weighed points best, by least squares: its height at the origin. Slopes are held back a little, for
/// points may lie on a line.
class PlaneFit {
public:
  explicit PlaneFit(size_t dimensions) : size(dimensions + 1), left(size * size, 0), right(size, 0) {}

  void add(const std::vector<double> &at, double height, double weight) {
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j)
        left[i * size + j] += weight * coordinate(at, i) * coordinate(at, j);
      right[i] += weight * coordinate(at, i) * height;
    }
  }

  /// By elimination; slopes first, the height last. The matrix is positive definite.
  double height() {
    for (size_t i = 1; i < size; ++i)
      left[i * size + i] += kHoldBack * left[0];
    for (size_t pivot = size - 1; pivot > 0; --pivot)
      for (size_t i = 0; i < pivot; ++i) {
        const double factor = left[i * size + pivot] / left[pivot * size + pivot];
        for (size_t j = 0; j < pivot; ++j)
          left[i * size + j] -= factor * left[pivot * size + j];
        right[i] -= factor * right[pivot];
      }
    return right[0] / left[0];
  }

private:
  static constexpr double kHoldBack = 1e-2;
  size_t size;
  std::vector<double> left, right; ///< normal equations; the height comes first

  static double coordinate(const std::vector<double> &at, size_t i) { return i == 0 ? 1 : at[i - 1]; }
};

/// The word before a space, which is dropped with it.
std::string_view firstWord(std::string_view &text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

Status readCall(const Target &target, std::string_view line, Rates &into) {
  const std::string_view place = firstWord(line), number = firstWord(line);
  if (place != "device" && place != "host")
    return fail("'{}' is no place; a call begins with device or host", place);
  double seconds = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), seconds);
  if (error != std::errc() || end != number.data() + number.size() || !(seconds > 0 && seconds < 1e6))
    return fail("'{}' is no number of seconds", number);
  kernels::Signature call;
  if (std::string problem = kernels::parse(line, call); !problem.empty())
    return fail("{}", problem);
  const bool onHost = place == "host";
  if (const kernels::Kernel *kernel = kernels::find(call.kernel); kernel->pieces) {
    into.addWhole(onHost ? Place::host : Place::device, call, seconds);
    return {};
  }
  into.add(onHost ? Place::host : Place::device, call, seconds / (onHost ? hostRoofline(target, call) : roofline(target, call)));
  return {};
}

} // namespace

Rates::Sample Rates::sampleOf(const kernels::Signature &call) {
  Sample sample;
  for (double extent : kernels::extentsOf(call))
    sample.at.push_back(std::log2(std::max(extent, 1.0)));
  for (const kernels::OperandType &operand : call.operands)
    if (operand.present && operand.effect != kernels::Effect::scratch)
      sample.types.push_back(operand.type);
  sample.attributes = call.attributes;
  return sample;
}

double Rates::squaredDistance(const kernels::Kernel &kernel, const Sample &a, const Sample &b) {
  double sum = a.types == b.types ? 0 : a.types.front() == b.types.front() ? kOtherChoice : kOtherType;
  for (size_t i = 0; i < a.at.size() && i < b.at.size(); ++i)
    sum += (a.at[i] - b.at[i]) * (a.at[i] - b.at[i]);
  for (const kernels::AttributeSpec &spec : kernel.attributes) {
    if (alike(spec, a.attributes, b.attributes))
      continue;
    if (spec.kind == kernels::AttributeSpec::flag || spec.kind == kernels::AttributeSpec::choice)
      sum += kOtherChoice;
    else if (spec.kind == kernels::AttributeSpec::integer && !spec.required) // an axis or a name tells nothing
      sum += kOtherNumber;
  }
  return sum;
}

/// The sample nearest to `wanted` within what was measured: nothing is known of slopes beyond.
Rates::Sample Rates::within(const std::vector<Sample> &samples, Sample wanted) {
  for (size_t i = 0; i < wanted.at.size(); ++i) {
    auto [least, most] = std::ranges::minmax(samples, {}, [i](const Sample &sample) { return sample.at[i]; });
    wanted.at[i] = std::clamp(wanted.at[i], least.at[i], most.at[i]);
  }
  return wanted;
}

void Rates::add(Place place, const kernels::Signature &call, double ratio) {
  Sample sample = sampleOf(call);
  sample.logRatio = std::log(ratio);
  samples[{place, call.kernel}].push_back(std::move(sample));
}

void Rates::addWhole(Place place, const kernels::Signature &call, double seconds) { wholes[{place, kernels::print(call)}] = seconds; }

std::optional<double> Rates::whole(Place place, const kernels::Signature &call) const {
  const auto found = wholes.find({place, kernels::print(call)});
  return found == wholes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> Rates::ratio(Place place, const kernels::Signature &call) const {
  const auto found = samples.find(std::pair(place, call.kernel));
  const kernels::Kernel *kernel = kernels::find(call.kernel);
  if (found == samples.end() || !kernel)
    return std::nullopt;
  const Sample wanted = within(found->second, sampleOf(call));
  PlaneFit fit(wanted.at.size());
  for (const Sample &sample : found->second) {
    const double squared = squaredDistance(*kernel, wanted, sample);
    if (squared < kSame)
      return std::exp(sample.logRatio);
    std::vector<double> away = sample.at;
    for (size_t i = 0; i < away.size(); ++i)
      away[i] -= wanted.at[i];
    fit.add(away, sample.logRatio, 1 / (squared * squared));
  }
  return std::exp(fit.height());
}

Result<std::shared_ptr<const Rates>> readRates(const Target &target) {
  if (target.calls.size() > kMostCalls)
    return fail("calls: {} of them; {} are the most", target.calls.size(), kMostCalls);
  auto rates = std::make_shared<Rates>();
  for (size_t i = 0; i < target.calls.size(); ++i)
    MT_TRY(readCall(target, target.calls[i], *rates).within(fmt::format("calls[{}]", i)));
  return std::shared_ptr<const Rates>(target.calls.empty() ? nullptr : std::move(rates));
}

} // namespace mt::target
