#include "models/RopeScaling.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace mt::models {
namespace {

constexpr double kTurn = 2 * M_PI;

struct Place {
  CheckpointConfig &config, rope;
  double theta;

  int64_t longest() { return config.integer("max_position_embeddings"); }
  /// Tokens a row that the model was first trained for.
  int64_t original() {
    const char *name = "original_max_position_embeddings";
    return config.has(name) ? config.integer(name) : rope.has(name) ? rope.integer(name) : longest();
  }
};

void scaleLinear(Place &place, Rotary &rotary) {
  const double factor = place.rope.positive("factor");
  for (double &frequency : rotary.frequencies)
    frequency /= factor;
}

void scaleDynamic(Place &place, Rotary &rotary) {
  rotary.growth = place.rope.positive("factor");
  rotary.limit = place.longest();
  if (rotary.frequencies.size() < 2)
    place.config.refuse("heads of {} are too small for dynamic rotary scaling", 2 * rotary.frequencies.size());
}

/// Peng et al., YaRN, arXiv 2309.00071: low frequencies are divided, high ones stay, those between are mixed.
void scaleYarn(Place &place, Rotary &rotary) {
  CheckpointConfig &rope = place.rope;
  const double original = double(place.original()), width = 2 * double(rotary.frequencies.size());
  const double factor = rope.has("factor") ? rope.positive("factor") : double(place.longest()) / original;
  auto gain = [&](double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; };
  const double weight = rope.realOr("mscale", 0), allWeight = rope.realOr("mscale_all_dim", 0);
  rotary.amplitude =
      rope.positiveOr("attention_factor", weight && allWeight ? gain(weight) / gain(allWeight) : gain(1));
  auto pairTurning = [&](double turns) {
    return width * std::log(original / (turns * kTurn)) / (2 * std::log(place.theta));
  };
  double low = pairTurning(rope.positiveOr("beta_fast", 32)), high = pairTurning(rope.positiveOr("beta_slow", 1));
  if (rope.flagOr("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high)
    high += 0.001;
  for (size_t i = 0; i < rotary.frequencies.size(); ++i) {
    const double divided = std::clamp((double(i) - low) / (high - low), 0.0, 1.0);
    rotary.frequencies[i] *= divided / factor + (1 - divided);
  }
}

/// Ding et al., LongRoPE, arXiv 2402.13753: each pair has a factor of its own, and another in long rows.
void scaleLongrope(Place &place, Rotary &rotary) {
  CheckpointConfig &rope = place.rope;
  const size_t pairs = rotary.frequencies.size();
  const std::vector<double> near = rope.positives("short_factor", pairs), far = rope.positives("long_factor", pairs);
  rotary.limit = place.original();
  const double factor = rope.has("factor") ? rope.positive("factor") : double(place.longest()) / double(rotary.limit);
  const double usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(double(rotary.limit)));
  rotary.amplitude = rope.positiveOr("attention_factor", usual);
  for (size_t i = 0; i < pairs; ++i) {
    rotary.beyond.push_back(rotary.frequencies[i] / far[i]);
    rotary.frequencies[i] /= near[i];
  }
}

/// Llama 3.1: frequencies that turn less than low_freq_factor times in the original length are divided.
void scaleLlama3(Place &place, Rotary &rotary) {
  CheckpointConfig &rope = place.rope;
  const double factor = rope.positive("factor"), low = rope.positive("low_freq_factor"),
               high = rope.positive("high_freq_factor"), original = double(place.original());
  rope.require(low < high, "low_freq_factor", "less than high_freq_factor");
  for (double &frequency : rotary.frequencies) {
    const double kept = std::clamp((original * frequency / kTurn - low) / (high - low), 0.0, 1.0);
    frequency = (1 - kept) * frequency / factor + kept * frequency;
  }
}

struct Kind {
  const char *name, *reads;
  void (*scale)(Place &, Rotary &);
};
constexpr Kind kKinds[] = {
    {"default", "", [](Place &, Rotary &) {}},
    {"linear", "`factor`", scaleLinear},
    {"dynamic", "`factor`, `max_position_embeddings`; rows beyond that length turn more slowly", scaleDynamic},
    {"yarn",
     "`factor`, `beta_fast`, `beta_slow`, `mscale`, `mscale_all_dim`, `attention_factor`, `truncate`, "
     "`original_max_position_embeddings`",
     scaleYarn},
    {"longrope",
     "`short_factor`, `long_factor`, `factor`, `attention_factor`, `original_max_position_embeddings`; the "
     "long factors where rows are longer than that",
     scaleLongrope},
    {"llama3", "`factor`, `low_freq_factor`, `high_freq_factor`, `original_max_position_embeddings`", scaleLlama3},
};

void checkFinite(CheckpointConfig &config, const Rotary &rotary) {
  auto finite = [](double value) { return std::isfinite(static_cast<float>(value)); };
  if (!finite(rotary.amplitude) || !std::ranges::all_of(rotary.frequencies, finite) ||
      !std::ranges::all_of(rotary.beyond, finite))
    config.refuse("the rotary positions that it describes are not finite numbers");
}

} // namespace

CheckpointConfig ropeOf(CheckpointConfig &config) {
  return config.inner(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters");
}

Rotary readRotary(CheckpointConfig &config, CheckpointConfig rope, int64_t headDim, const RopeDefaults &defaults) {
  const double theta =
      rope.has("rope_theta") ? rope.positive("rope_theta") : config.positiveOr(defaults.thetaName, defaults.theta);
  const char *partName = "partial_rotary_factor";
  const double part = rope.has(partName) ? rope.positive(partName) : config.positiveOr(partName, 1);
  (rope.has(partName) ? rope : config)
      .require(part == 1 || (defaults.partial && part < 1), partName, defaults.partial ? "at most 1" : "1");
  const auto width = static_cast<int64_t>(double(headDim) * std::min(part, 1.0));
  if (width < 2 || width % 2 != 0)
    config.refuse("'head_dim' {} makes {} elements of a head turn; that must be an even number", headDim, width);
  std::string name = rope.textOr("rope_type", rope.textOr("type", "default"));
  if (defaults.renamed && (name == "su" || name == "yarn"))
    name = "longrope";
  Rotary rotary = plainRotary(std::max<int64_t>(width, 2), theta);
  const Kind *kind = std::ranges::find(kKinds, name, &Kind::name);
  if (kind == std::end(kKinds)) {
    std::vector<std::string> names;
    for (const Kind &known : kKinds)
      names.push_back(known.name);
    rope.refuse("the rotary positions are of kind '{}'; supported: {}", name, fmt::join(names, ", "));
    return rotary;
  }
  Place place = {config, rope, theta};
  kind->scale(place, rotary);
  checkFinite(config, rotary);
  return rotary;
}

std::string ropeKinds() {
  std::string rows;
  for (const Kind &kind : kKinds)
    rows += fmt::format("| `{}` | {} |\n", kind.name, kind.reads);
  return rows;
}

} // namespace mt::models
