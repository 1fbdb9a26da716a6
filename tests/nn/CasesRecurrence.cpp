// Cases of recurrent layers: every kind with every flag, operand and result.
#include "tests/nn/GradientCheck.h"

using namespace mlir;

namespace mt::nn::test {
namespace {

struct Form {
  std::string kind;
  bool reverse = false, linear = false, coupled = false, biased = false, states = false, peephole = false;
  std::vector<double> lengths = {}; ///< empty: none
  double clip = 0;
  std::string gate = "sigmoid", candidate = "tanh", output = "tanh";
  int results = 1; ///< bit 0: hidden, bit 1: cell
  int64_t steps = 3, batch = 2, width = 3;

  bool lstm() const { return kind == "lstm"; }
  int64_t line() const { return (lstm() ? 4 : kind == "gru" ? 3 : 1) * width; }

  std::string name() const {
    std::string text = kind;
    for (auto [set, word] : {std::pair(reverse, " reverse"),
                             {linear, " linearBeforeReset"},
                             {coupled, " coupled"},
                             {biased, " bias"},
                             {states, " initial states"},
                             {peephole, " peephole"},
                             {!lengths.empty(), " lengths"},
                             {clip > 0, " clip"},
                             {results != 1, results == 2 ? " cells" : " both results"}})
      text += set ? word : "";
    return text + " " + gate + " " + candidate + " " + output + " " + std::to_string(steps) + "x" +
           std::to_string(batch) + "x" + std::to_string(width);
  }

  std::vector<Input> inputs() const {
    std::vector<Input> made{real({steps, batch, line()}), real({line(), width}, -0.7, 0.7)};
    if (biased)
      made.push_back(real({line()}));
    for (int state = 0; states && state < (lstm() ? 2 : 1); ++state)
      made.push_back(real({batch, width}));
    if (peephole)
      made.push_back(real({3 * width}));
    if (!lengths.empty()) {
      made.push_back(integers({batch}, 0, 1));
      made.back().draw = [values = lengths](Random &, size_t index, size_t) { return values[index]; };
    }
    return made;
  }

  SmallVector<Value> body(Graph g) const {
    size_t next = 2;
    auto take = [&](bool there) { return there ? g.in[next++] : Value(); };
    Value bias = take(biased), hidden = take(states), cell = take(states && lstm()), peep = take(peephole),
          ends = take(!lengths.empty());
    auto made = g.make<RecurrenceOp>(g.in[0], g.in[1], bias, hidden, cell, ends, peep, kind, reverse, linear, coupled,
                                     APFloat(clip), gate, candidate, output);
    SmallVector<Value> values;
    if (results & 1)
      values.push_back(made.getHidden());
    if (results & 2)
      values.push_back(made.getCell());
    return values;
  }
};

std::vector<Form> forms() {
  std::vector<Form> made;
  for (const char *kind : {"rnn", "gru", "lstm"})
    for (bool reverse : {false, true}) {
      Form plain{kind, reverse}, full = plain;
      full.biased = full.states = true;
      made.push_back(plain);
      made.push_back(full);
      full.lengths = {2, 0};
      made.push_back(full);
    }
  for (bool reverse : {false, true})
    for (bool whole : {false, true}) {
      Form linear{"gru", reverse, true};
      linear.biased = linear.states = whole;
      linear.lengths = whole ? std::vector<double>{1, 3} : std::vector<double>();
      made.push_back(linear);
      Form cells{"lstm", reverse};
      cells.states = cells.peephole = whole;
      for (int results : {2, 3}) {
        cells.results = results;
        made.push_back(cells);
      }
      cells.coupled = true;
      made.push_back(cells);
      cells.lengths = {3, 1};
      made.push_back(cells);
    }
  return made;
}

/// Activations and clips, and sizes of one.
std::vector<Form> variants() {
  std::vector<Form> made;
  for (const char *kind : {"rnn", "gru", "lstm"})
    for (const char *name : {"sigmoid", "tanh", "relu"}) {
      Form form{kind};
      form.gate = form.candidate = form.output = name;
      form.states = true;
      made.push_back(form);
    }
  for (const Form &form : {Form{"rnn"}, Form{"gru"}, Form{"gru", false, true}, Form{"lstm"}}) {
    Form held = form, one = form;
    held.clip = 0.8;
    held.biased = true;
    made.push_back(held);
    one.steps = one.batch = one.width = 1;
    one.states = true;
    made.push_back(one);
  }
  return made;
}

} // namespace

void addRecurrenceCases(Cases &cases) {
  for (const auto &list : {forms(), variants()})
    for (const Form &form : list)
      cases["recurrence"].push_back({form.name(), form.inputs(), [form](Graph g) { return form.body(g); }});
}

} // namespace mt::nn::test
