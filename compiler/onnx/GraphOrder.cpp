#include "compiler/onnx/GraphOrder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <queue>

namespace mt::onnx {
namespace {

using Node = ::onnx::NodeProto;

void addCaptured(const ::onnx::GraphProto &graph, std::set<std::string> &names) {
  std::set<std::string> inner, read;
  for (const auto &input : graph.input())
    inner.insert(input.name());
  for (const auto &tensor : graph.initializer())
    inner.insert(tensor.name());
  for (const Node &node : graph.node()) {
    inner.insert(node.output().begin(), node.output().end());
    read.merge(namesRead(node));
  }
  for (const auto &output : graph.output())
    read.insert(output.name());
  for (const std::string &name : read)
    if (!inner.contains(name))
      names.insert(name);
}

class Sorter {
public:
  Sorter(const NodeList &nodes, const std::function<bool(const std::string &)> &outside, Problems &problems)
      : nodes(nodes), outside(outside), problems(problems) {
    recordProducers();
    recordReads();
  }
  std::vector<const Node *> sorted();
  std::vector<bool> liveFrom(const std::vector<std::string> &outputs) const;

private:
  void recordProducers();
  void recordReads();
  void reportCycle(const std::vector<int> &waiting) const;

  const NodeList &nodes;
  const std::function<bool(const std::string &)> &outside;
  Problems &problems;
  std::map<std::string, int> producer;
  std::vector<std::set<int>> before; // nodes each node reads from
};

void Sorter::recordProducers() {
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string &name : nodes[i].output()) {
      if (name.empty())
        continue;
      if (outside(name))
        problems.push_back(fmt::format("{} defines '{}' again: every value must have one definition",
                                       nodeText(nodes[i]), name));
      else if (auto [at, fresh] = producer.emplace(name, i); !fresh)
        problems.push_back(fmt::format("{} and {} both define '{}': every value must have one definition",
                                       nodeText(nodes[at->second]), nodeText(nodes[i]), name));
    }
}

void Sorter::recordReads() {
  before.resize(static_cast<size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string &name : namesRead(nodes[i])) {
      auto at = producer.find(name);
      if (at != producer.end())
        before[static_cast<size_t>(i)].insert(at->second);
      else if (!outside(name))
        problems.push_back(fmt::format("{} reads '{}', which no node, input or initializer defines: the file is "
                                       "damaged or was cut; export it again",
                                       nodeText(nodes[i]), name));
    }
}

// Kahn's algorithm, smallest index first: a valid file keeps its order.
std::vector<const Node *> Sorter::sorted() {
  auto count = static_cast<size_t>(nodes.size());
  std::vector<int> waiting(count);
  std::vector<std::vector<int>> after(count);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < count; ++i) {
    waiting[i] = static_cast<int>(before[i].size());
    for (int source : before[i])
      after[static_cast<size_t>(source)].push_back(static_cast<int>(i));
    if (waiting[i] == 0)
      ready.push(static_cast<int>(i));
  }
  std::vector<const Node *> order;
  while (!ready.empty()) {
    int next = ready.top();
    ready.pop();
    order.push_back(&nodes[next]);
    for (int user : after[static_cast<size_t>(next)])
      if (--waiting[static_cast<size_t>(user)] == 0)
        ready.push(user);
  }
  if (order.size() != count)
    reportCycle(waiting);
  return order;
}

// Walks back from a waiting node through waiting nodes until one comes up again.
void Sorter::reportCycle(const std::vector<int> &waiting) const {
  int at = 0;
  while (waiting[static_cast<size_t>(at)] == 0)
    ++at;
  std::vector<int> path;
  std::set<int> seen;
  while (seen.insert(at).second) {
    path.push_back(at);
    for (int source : before[static_cast<size_t>(at)])
      if (waiting[static_cast<size_t>(source)] > 0) {
        at = source;
        break;
      }
  }
  std::vector<std::string> names;
  for (auto i = std::find(path.begin(), path.end(), at); i != path.end() && names.size() < 8; ++i)
    names.push_back(nodeName(nodes[*i]));
  problems.push_back(fmt::format("the graph has a cycle through the nodes {}: an ONNX graph must not have one",
                                 fmt::join(names, ", ")));
}

std::vector<bool> Sorter::liveFrom(const std::vector<std::string> &outputs) const {
  std::vector<bool> live(static_cast<size_t>(nodes.size()));
  std::vector<int> work;
  auto reach = [&](int index) {
    if (live[static_cast<size_t>(index)])
      return;
    live[static_cast<size_t>(index)] = true;
    work.push_back(index);
  };
  for (const std::string &name : outputs)
    if (auto at = producer.find(name); at != producer.end())
      reach(at->second);
  while (!work.empty()) {
    int index = work.back();
    work.pop_back();
    for (int source : before[static_cast<size_t>(index)])
      reach(source);
  }
  return live;
}

} // namespace

std::string nodeName(const Node &node) {
  if (!node.name().empty())
    return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

std::string domainOf(const Node &node) { return node.domain() == "ai.onnx" ? "" : node.domain(); }

std::string nodeText(const Node &node) {
  std::string domain = domainOf(node);
  return fmt::format("node '{}' ({}{}{})", nodeName(node), domain, domain.empty() ? "" : ".", node.op_type());
}

std::set<std::string> namesRead(const Node &node) {
  std::set<std::string> names(node.input().begin(), node.input().end());
  for (const auto &attribute : node.attribute()) {
    if (attribute.has_g())
      addCaptured(attribute.g(), names);
    for (const auto &graph : attribute.graphs())
      addCaptured(graph, names);
  }
  names.erase("");
  return names;
}

std::vector<const Node *> orderNodes(const NodeList &nodes, const std::vector<std::string> &outputs,
                                     const std::function<bool(const std::string &)> &outside, Problems &problems) {
  Sorter sorter(nodes, outside, problems);
  std::vector<const Node *> order = sorter.sorted();
  std::vector<bool> live = sorter.liveFrom(outputs);
  std::map<const Node *, bool> wanted;
  for (int i = 0; i < nodes.size(); ++i)
    wanted[&nodes[i]] = live[static_cast<size_t>(i)];
  std::erase_if(order, [&](const Node *node) { return !wanted[node]; });
  return order;
}

} // namespace mt::onnx
