#include "runtime/plan/PlanProto.h"

#include <type_traits>

namespace mt::plan {
namespace {

//===-- structs to messages ---------------------------------------------------------------------------------===//

// Enumerators have the same numbers on both sides, except effects of bindings.
template <typename To, typename From> To same(From value) { return static_cast<To>(static_cast<int>(value)); }

proto::Effect toProto(BindingEffect effect) {
  switch (effect) {
  case BindingEffect::write:
    return proto::WRITE;
  case BindingEffect::accumulate:
    return proto::ACCUMULATE;
  case BindingEffect::update:
    return proto::UPDATE;
  default:
    return proto::READ;
  }
}

void put(const Span &span, proto::Span *to) {
  to->set_space(span.space);
  to->set_offset(span.offset);
  to->set_bytes(span.bytes);
}

void put(const Initial &initial, proto::Initial *to) {
  if (!initial.path.empty()) {
    to->mutable_file()->set_path(initial.path);
    to->mutable_file()->set_offset(initial.offset);
    to->mutable_file()->set_length(initial.length);
    to->mutable_file()->set_type(same<proto::DType>(initial.type));
    to->mutable_file()->set_sample(initial.sample);
  } else if (initial.pieces.empty()) {
    to->mutable_generator()->set_kind(initial.generator);
    to->mutable_generator()->set_seed(initial.seed);
    to->mutable_generator()->set_deviation(initial.deviation);
    to->mutable_generator()->set_value(initial.value);
  }
  if (initial.packing) {
    to->mutable_packing()->mutable_dims()->Assign(initial.packing->dims.begin(), initial.packing->dims.end());
    to->mutable_packing()->set_block(initial.packing->block);
    to->mutable_packing()->set_codes(initial.packing->codes);
  }
  for (const Piece &piece : initial.pieces) {
    auto *made = to->add_pieces();
    made->set_name(piece.name);
    put(piece.initial, made->mutable_initial());
  }
}

void put(const Parameter &parameter, proto::Parameter *to) {
  to->set_name(parameter.name);
  for (const Alias &alias : parameter.aliases) {
    auto *made = to->add_aliases();
    made->set_kind(same<proto::Alias::Kind>(alias.kind));
    made->set_name(alias.name);
    made->set_transposed(alias.transposed);
  }
  to->mutable_dims()->Assign(parameter.dims.begin(), parameter.dims.end());
  to->set_trainable(parameter.trainable);
  to->set_optimizer(parameter.optimizer);
  for (const Part &part : parameter.parts) {
    auto *made = to->add_parts();
    made->set_name(part.name);
    made->set_elements(part.elements);
    made->set_type(same<proto::DType>(part.type));
    put(part.span, made->mutable_span());
  }
  put(parameter.initial, to->mutable_initial());
}

void put(const Input &input, proto::Input *to) {
  to->set_kind(same<proto::Input::Kind>(input.kind));
  to->set_name(input.name);
  to->set_type(same<proto::DType>(input.type));
  to->mutable_dims()->Assign(input.dims.begin(), input.dims.end());
  for (const Span &part : input.parts)
    put(part, to->add_parts());
  to->set_vocabulary(input.vocabulary);
  if (input.ignored)
    to->set_ignored(*input.ignored);
  else
    to->set_every_label_counts(true);
  to->mutable_targets()->Assign(input.targets.begin(), input.targets.end());
}

void put(const std::string &name, const kernels::Attribute &value, proto::Attribute *to) {
  to->set_name(name);
  if (auto *integer = std::get_if<int64_t>(&value))
    to->set_integer(*integer);
  else if (auto *real = std::get_if<double>(&value))
    to->set_real(*real);
  else if (auto *text = std::get_if<std::string>(&value))
    to->set_text(*text);
  else if (auto *integers = std::get_if<std::vector<int64_t>>(&value))
    to->mutable_integers()->mutable_values()->Assign(integers->begin(), integers->end());
  else if (auto *reals = std::get_if<std::vector<double>>(&value))
    to->mutable_reals()->mutable_values()->Assign(reals->begin(), reals->end());
}

void put(const Call &call, proto::Call *to) {
  to->set_kernel(call.signature.kernel);
  for (const auto &[name, value] : call.signature.attributes)
    put(name, value, to->add_attributes());
  for (size_t i = 0; i < call.signature.operands.size(); ++i) {
    const kernels::OperandType &type = call.signature.operands[i];
    auto *made = to->add_operands();
    made->set_absent(!type.present);
    made->set_argument(i < call.operands.size() ? call.operands[i].argument : -1);
    made->set_offset(i < call.operands.size() ? call.operands[i].offset : 0);
    made->set_type(same<proto::DType>(type.type));
    made->mutable_dims()->Assign(type.dims.begin(), type.dims.end());
    made->set_effect(same<proto::Effect>(type.effect));
  }
  to->set_location(call.location);
}

void put(const Template &code, proto::Template *to) {
  to->set_name(code.name);
  for (const Argument &argument : code.arguments) {
    auto *made = to->add_arguments();
    made->set_bytes(argument.bytes);
    made->set_effect(same<proto::Effect>(argument.effect));
  }
  to->set_workspace_bytes(code.workspaceBytes);
  for (const Call &call : code.calls)
    put(call, to->add_calls());
}

void put(const Command &command, proto::Command *to) {
  to->set_role(same<proto::Command::Role>(command.role));
  to->set_stream(command.stream);
  to->set_label(command.label);
  if (command.isCopy) {
    to->mutable_copy()->set_bytes(same<proto::Copy::Bytes>(command.bytes));
    put(command.from, to->mutable_copy()->mutable_from());
    put(command.to, to->mutable_copy()->mutable_to());
  } else {
    to->mutable_run()->set_template_index(command.templateIndex);
    for (const Binding &binding : command.arguments) {
      auto *made = to->mutable_run()->add_arguments();
      put(binding.span, made->mutable_span());
      made->set_effect(toProto(binding.effect));
      made->set_fresh(binding.fresh);
      made->set_bytes(same<proto::Copy::Bytes>(binding.bytes));
      made->set_rank_stride(binding.rankStride);
      made->set_rank_reach(binding.rankReach);
    }
    put(command.workspace, to->mutable_run()->mutable_workspace());
  }
  for (const Await &await : command.awaits) {
    auto *made = to->add_awaits();
    made->set_command(await.command);
    made->set_back(await.back);
  }
  to->set_predicted_seconds(command.predictedSeconds);
  to->set_layer(command.layer);
  to->set_micro_batch(command.microBatch);
}

void putHead(const Plan &plan, proto::Plan *to) {
  to->set_producer(plan.producer);
  to->set_ranks(plan.ranks);
  auto *model = to->mutable_model();
  model->set_file(plan.model.file);
  model->set_name(plan.model.name);
  model->set_digest(plan.model.digest);
  model->set_layers(plan.model.layers);
  model->set_vocabulary(plan.model.vocabulary);
  auto *settings = to->mutable_settings();
  settings->set_batch(plan.settings.batch);
  settings->set_micro_batch(plan.settings.microBatch);
  settings->set_sequence(plan.settings.sequence);
  settings->set_loss(plan.settings.loss);
  settings->set_label_smoothing(plan.settings.labelSmoothing);
  settings->set_z_loss(plan.settings.zLoss);
  settings->set_precision(plan.settings.precision);
  settings->set_optimizer(plan.settings.optimizer);
  for (const std::string &group : plan.settings.groups)
    settings->add_groups(group);
  settings->set_clip(plan.settings.clip);
  settings->set_average(plan.settings.average);
  settings->set_saved_activations(plan.settings.savedActivations);
  settings->set_weights(plan.settings.weights);
  settings->set_parked(plan.settings.parked);
  settings->set_updates(plan.settings.updates);
  settings->set_narrow_exchange(plan.settings.narrowExchange);
  settings->set_every_row_counts(plan.settings.everyRowCounts);
  settings->set_loss_of_rows(plan.settings.lossOfRows);
  to->mutable_target()->set_name(plan.target.name);
  to->mutable_target()->set_device(plan.target.device);
  to->mutable_target()->set_unified(plan.target.unified);
  to->mutable_target()->set_isa(plan.target.isa);
  for (const auto &row : plan.target.contention)
    for (double share : row)
      to->mutable_target()->add_contention(share);
}

void put(const Prediction &prediction, proto::Prediction *to) {
  to->set_step_seconds(prediction.stepSeconds);
  to->set_compute_seconds(prediction.computeSeconds);
  to->set_upload_seconds(prediction.uploadSeconds);
  to->set_download_seconds(prediction.downloadSeconds);
  to->set_host_seconds(prediction.hostSeconds);
  to->set_disk_seconds(prediction.diskSeconds);
  to->set_network_seconds(prediction.networkSeconds);
  to->set_network_bytes(prediction.networkBytes);
  to->set_bound(prediction.bound);
  to->set_useful_flops(prediction.usefulFlops);
  to->set_executed_flops(prediction.executedFlops);
  to->set_weight_link_bytes(prediction.weightLinkBytes);
  to->set_gradient_link_bytes(prediction.gradientLinkBytes);
  to->set_activation_link_bytes(prediction.activationLinkBytes);
  to->set_state_link_bytes(prediction.stateLinkBytes);
}

//===-- messages to structs ---------------------------------------------------------------------------------===//

/// Keeps the first enumerator that has no meaning; everything else is taken over as it is.
class Reader {
public:
  Status problem;
  std::string place; ///< what is being read, for messages

  template <typename To, typename From> To enumerator(From value, To last, std::string_view what) {
    int number = static_cast<int>(value);
    if (number >= 0 && number <= static_cast<int>(last))
      return static_cast<To>(number);
    unknown(what, number);
    return To();
  }
  DType type(proto::DType value) { return enumerator(value, DType::boolean, "element type"); }
  void unknown(std::string_view what, int number) {
    if (problem.ok())
      problem = fail("{}: unknown {} {}", place, what, number);
  }

  static Span span(const proto::Span &from) { return {from.space(), from.offset(), from.bytes()}; }
  Initial initial(const proto::Initial &from);
  Parameter parameter(const proto::Parameter &from);
  Input input(const proto::Input &from);
  Call call(const proto::Call &from);
  Template code(const proto::Template &from);
  BindingEffect effect(proto::Effect from);
  Command command(const proto::Command &from);
};

Initial Reader::initial(const proto::Initial &from) {
  Initial made;
  if (from.has_file()) {
    made.path = from.file().path();
    made.offset = from.file().offset();
    made.length = from.file().length();
    made.type = type(from.file().type());
    made.sample = from.file().sample();
  } else {
    made.generator = from.generator().kind();
    made.seed = from.generator().seed();
    made.deviation = from.generator().deviation();
    made.value = from.generator().value();
  }
  if (from.has_packing())
    made.packing = {{from.packing().dims().begin(), from.packing().dims().end()},
                    from.packing().block(),
                    from.packing().codes()};
  for (const proto::Piece &piece : from.pieces()) {
    if (piece.initial().pieces_size() > 0 || piece.initial().has_packing())
      problem = fail("{}: piece {} is more than bytes or a generator", place, made.pieces.size());
    else
      made.pieces.push_back({piece.name(), initial(piece.initial())});
  }
  return made;
}

Parameter Reader::parameter(const proto::Parameter &from) {
  Parameter made{.name = from.name(),
                 .aliases = {},
                 .dims = {from.dims().begin(), from.dims().end()},
                 .trainable = from.trainable(),
                 .optimizer = from.optimizer(),
                 .parts = {},
                 .initial = initial(from.initial())};
  for (const auto &alias : from.aliases())
    made.aliases.push_back({enumerator(alias.kind(), Alias::Kind::module, "alias"), alias.name(), alias.transposed()});
  for (const auto &part : from.parts())
    made.parts.push_back(
        {part.name(), type(part.type()), span(part.span()), part.elements()});
  return made;
}

Input Reader::input(const proto::Input &from) {
  Input made{.kind = enumerator(from.kind(), InputKind::rows, "kind"),
             .name = from.name(),
             .type = type(from.type()),
             .dims = {from.dims().begin(), from.dims().end()},
             .parts = {},
             .vocabulary = from.vocabulary(),
             .targets = {from.targets().begin(), from.targets().end()}};
  if (from.every_label_counts())
    made.ignored.reset();
  else if (from.has_ignored())
    made.ignored = from.ignored();
  for (const auto &part : from.parts())
    made.parts.push_back(span(part));
  return made;
}

kernels::Attribute attribute(const proto::Attribute &from) {
  switch (from.value_case()) {
  case proto::Attribute::kReal:
    return from.real();
  case proto::Attribute::kText:
    return from.text();
  case proto::Attribute::kIntegers:
    return std::vector<int64_t>(from.integers().values().begin(), from.integers().values().end());
  case proto::Attribute::kReals:
    return std::vector<double>(from.reals().values().begin(), from.reals().values().end());
  default:
    return from.integer();
  }
}

Call Reader::call(const proto::Call &from) {
  Call made;
  made.signature.kernel = from.kernel();
  made.location = from.location();
  for (const auto &one : from.attributes())
    made.signature.attributes[one.name()] = attribute(one);
  for (const auto &operand : from.operands()) {
    made.signature.operands.push_back({.type = type(operand.type()),
                                       .dims = {operand.dims().begin(), operand.dims().end()},
                                       .effect = enumerator(operand.effect(), kernels::Effect::update, "effect"),
                                       .present = !operand.absent()});
    made.operands.push_back({operand.argument(), operand.offset()});
  }
  return made;
}

Template Reader::code(const proto::Template &from) {
  Template made{.name = from.name(), .arguments = {}, .workspaceBytes = from.workspace_bytes(), .calls = {}};
  for (const auto &argument : from.arguments())
    made.arguments.push_back({argument.bytes(), enumerator(argument.effect(), kernels::Effect::update, "effect")});
  for (const auto &one : from.calls())
    made.calls.push_back(call(one));
  return made;
}

BindingEffect Reader::effect(proto::Effect from) {
  switch (from) {
  case proto::READ:
    return BindingEffect::read;
  case proto::WRITE:
    return BindingEffect::write;
  case proto::ACCUMULATE:
    return BindingEffect::accumulate;
  case proto::UPDATE:
    return BindingEffect::update;
  default:
    unknown("effect", static_cast<int>(from));
    return BindingEffect::read;
  }
}

Command Reader::command(const proto::Command &from) {
  Command made;
  made.role = enumerator(from.role(), Role::update, "role");
  made.stream = from.stream();
  made.label = from.label();
  made.isCopy = from.has_copy();
  if (!from.has_copy() && !from.has_run() && problem.ok())
    problem = fail("{}: neither a copy nor a run", place);
  if (made.isCopy) {
    made.bytes = enumerator(from.copy().bytes(), ByteKind::workspace, "kind of bytes");
    made.from = span(from.copy().from());
    made.to = span(from.copy().to());
  } else {
    made.templateIndex = from.run().template_index();
    for (const auto &binding : from.run().arguments())
      made.arguments.push_back({span(binding.span()), effect(binding.effect()), binding.fresh(),
                                enumerator(binding.bytes(), ByteKind::workspace, "kind of bytes"),
                                binding.rank_stride(), binding.rank_reach()});
    made.workspace = span(from.run().workspace());
  }
  for (const auto &await : from.awaits())
    made.awaits.push_back({await.command(), await.back()});
  made.predictedSeconds = from.predicted_seconds();
  made.layer = from.layer();
  made.microBatch = from.micro_batch();
  return made;
}

void readHead(const proto::Plan &from, Plan &plan) {
  plan.producer = from.producer();
  plan.ranks = std::max<uint32_t>(1, from.ranks());
  plan.model = {from.model().file(), from.model().name(), from.model().digest(), from.model().layers(),
                from.model().vocabulary()};
  const auto &settings = from.settings();
  plan.settings = {.batch = settings.batch(),
                   .microBatch = settings.micro_batch(),
                   .sequence = settings.sequence(),
                   .loss = settings.loss(),
                   .precision = settings.precision(),
                   .labelSmoothing = settings.label_smoothing(),
                   .zLoss = settings.z_loss(),
                   .optimizer = settings.optimizer(),
                   .groups = {settings.groups().begin(), settings.groups().end()},
                   .clip = settings.clip(),
                   .average = settings.average(),
                   .savedActivations = settings.saved_activations(),
                   .weights = settings.weights(),
                   .parked = settings.parked(),
                   .updates = settings.updates(),
                   .narrowExchange = settings.narrow_exchange(),
                   .everyRowCounts = settings.every_row_counts(),
                   .lossOfRows = settings.loss_of_rows()};
  plan.target = {from.target().name(), from.target().device(), from.target().unified(), {}, from.target().isa()};
  for (size_t i = 0; i < static_cast<size_t>(from.target().contention_size()); ++i)
    plan.target.contention[i / kStreamKinds][i % kStreamKinds] = from.target().contention(static_cast<int>(i));
  const auto &prediction = from.prediction();
  plan.prediction = {.stepSeconds = prediction.step_seconds(),
                     .computeSeconds = prediction.compute_seconds(),
                     .uploadSeconds = prediction.upload_seconds(),
                     .downloadSeconds = prediction.download_seconds(),
                     .hostSeconds = prediction.host_seconds(),
                     .diskSeconds = prediction.disk_seconds(),
                     .networkSeconds = prediction.network_seconds(),
                     .bound = prediction.bound(),
                     .usefulFlops = prediction.useful_flops(),
                     .executedFlops = prediction.executed_flops(),
                     .weightLinkBytes = prediction.weight_link_bytes(),
                     .gradientLinkBytes = prediction.gradient_link_bytes(),
                     .activationLinkBytes = prediction.activation_link_bytes(),
                     .stateLinkBytes = prediction.state_link_bytes(),
                     .networkBytes = prediction.network_bytes()};
}

} // namespace

proto::Plan toProto(const Plan &plan) {
  proto::Plan made;
  putHead(plan, &made);
  for (const Space &space : plan.spaces) {
    auto *to = made.add_spaces();
    to->set_kind(same<proto::Space::Kind>(space.kind));
    to->set_device(space.device);
    to->set_bytes(space.bytes);
    to->set_name(space.name);
  }
  for (const Stream &stream : plan.streams) {
    auto *to = made.add_streams();
    to->set_kind(same<proto::Stream::Kind>(stream.kind));
    to->set_device(stream.device);
    to->set_name(stream.name);
  }
  for (const Parameter &parameter : plan.parameters)
    put(parameter, made.add_parameters());
  for (const Adapter &adapter : plan.adapters) {
    auto *to = made.add_adapters();
    to->set_weight(adapter.weight);
    to->set_down(adapter.down);
    to->set_up(adapter.up);
    to->set_scale(adapter.scale);
    to->set_dropout(adapter.dropout);
    to->set_transposed(adapter.transposed);
  }
  for (const Input &input : plan.inputs)
    put(input, made.add_inputs());
  for (const Template &code : plan.templates)
    put(code, made.add_templates());
  for (const Program &program : plan.programs) {
    auto *to = made.add_programs();
    to->set_kind(same<proto::Program::Kind>(program.kind));
    for (const Command &command : program.commands)
      put(command, to->add_commands());
  }
  put(plan.prediction, made.mutable_prediction());
  return made;
}

Result<Plan> fromProto(const proto::Plan &message) {
  Plan plan;
  Reader reader;
  if (const int count = message.target().contention_size(); count != 0 && size_t(count) != kStreamKinds * kStreamKinds)
    return fail("contention has {} numbers, and not {}", count, kStreamKinds * kStreamKinds);
  readHead(message, plan);
  for (const auto &space : message.spaces()) {
    reader.place = fmt::format("space {}", plan.spaces.size());
    plan.spaces.push_back(
        {reader.enumerator(space.kind(), SpaceKind::file, "kind"), space.device(), space.bytes(), space.name()});
  }
  for (const auto &stream : message.streams()) {
    reader.place = fmt::format("stream {}", plan.streams.size());
    plan.streams.push_back(
        {reader.enumerator(stream.kind(), StreamKind(kStreamKinds - 1), "kind"), stream.device(), stream.name()});
  }
  for (const auto &parameter : message.parameters()) {
    reader.place = fmt::format("parameter {} \"{}\"", plan.parameters.size(), parameter.name());
    plan.parameters.push_back(reader.parameter(parameter));
  }
  for (const auto &adapter : message.adapters())
    plan.adapters.push_back(
        {adapter.weight(), adapter.down(), adapter.up(), adapter.scale(), adapter.dropout(), adapter.transposed()});
  for (const auto &input : message.inputs()) {
    reader.place = fmt::format("input {} \"{}\"", plan.inputs.size(), input.name());
    plan.inputs.push_back(reader.input(input));
  }
  for (const auto &code : message.templates()) {
    reader.place = fmt::format("template {} \"{}\"", plan.templates.size(), code.name());
    plan.templates.push_back(reader.code(code));
  }
  for (const auto &program : message.programs()) {
    reader.place = fmt::format("program {}", plan.programs.size());
    Program made{reader.enumerator(program.kind(), ProgramKind::store, "kind"), {}};
    for (const auto &command : program.commands()) {
      reader.place =
          fmt::format("program {}, command {} \"{}\"", plan.programs.size(), made.commands.size(), command.label());
      made.commands.push_back(reader.command(command));
    }
    plan.programs.push_back(std::move(made));
  }
  if (!reader.problem.ok())
    return reader.problem;
  return plan;
}

} // namespace mt::plan
