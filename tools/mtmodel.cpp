// mtmodel: writes .onnx models of any size, or the graph of a Hugging Face checkpoint folder.
#include "Version.h"
#include "models/Families.h"
#include "models/WriteModel.h"
#include "runtime/base/Files.h"
#include "runtime/base/OutOfMemory.h"
#include "runtime/base/Sizes.h"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace {

using namespace mt;

constexpr int kFailed = 1, kUsage = 2;
constexpr int64_t kLargestSize = int64_t(1) << 30;

void addWriteOptions(CLI::App &command, models::WriteOptions &options) {
  command.add_option("-o,--output", options.output, "the model to write")->required()->type_name("MODEL.onnx");
  command.add_option("--opset", options.opset, "20 to 22 write attention, RMSNorm and rotary decomposed; 23 as one node")
      ->check(CLI::Range(20, 23).description(""))
      ->type_name("N")
      ->capture_default_str();
}

void addSizes(CLI::App &command, models::Shape &shape) {
  struct Size {
    const char *flag;
    int64_t models::Shape::*field;
    const char *what;
  };
  constexpr Size kSizes[] = {
      {"--layers", &models::Shape::layers, "blocks"},
      {"--hidden", &models::Shape::hidden, "width of the carried value"},
      {"--intermediate", &models::Shape::intermediate, "inner width of a block's MLP"},
      {"--heads", &models::Shape::heads, "attention heads"},
      {"--kv-heads", &models::Shape::kvHeads, "key and value heads (default: as many as heads)"},
      {"--vocab", &models::Shape::vocab, "tokens, or classes"},
      {"--seq", &models::Shape::seq, "learned positions; of rotary models no limit"},
  };
  for (const Size &size : kSizes)
    command.add_option(size.flag, shape.*size.field, size.what)->check(CLI::Range(int64_t(1), kLargestSize).description(""))->type_name("N");
}

int usage(const std::string &message) {
  fmt::print(stderr, "error: {}\nRun mtmodel --help for usage.\n", message);
  return kUsage;
}

int report(const Result<models::Written> &written, const std::string &output) {
  if (!written) {
    fmt::print(stderr, "error: {}\n", written.status().message());
    return kFailed;
  }
  for (const std::string &warning : written->warnings)
    fmt::print(stderr, "warning: {}\n", warning);
  Status said = writeAbout(output, fmt::format(
      "{}: {} parameters; graph {}{}\n", output, formatCount(double(written->parameters)), formatSize(written->graphBytes),
      written->weightBytes ? ", weights " + formatSize(written->weightBytes) : std::string()));
  if (said)
    return 0;
  fmt::print(stderr, "error: {}\n", said.message());
  return kFailed;
}

} // namespace

int main(int argc, char **argv) {
  explainOutOfMemory("free memory on this machine, or make a smaller model");
  CLI::App app{"Writes .onnx models of any size. Initial weights are generators in metadata, not bytes: a model of\n"
               "120 B parameters is a file of kilobytes."};
  app.footer("Example:\n  mtmodel llama --layers 4 --hidden 256 --heads 8 --kv-heads 2 --vocab 256 -o tiny.onnx");
  app.set_version_flag("--version", fmt::format("mtmodel {} (revision {})", kVersion, kRevision));
  app.require_subcommand(1);

  models::Shape shape;
  models::WriteOptions options;
  const models::Family *chosen = nullptr;
  for (const models::Family &family : models::families()) {
    CLI::App *command = app.add_subcommand(std::string(family.name), std::string(family.summary));
    addSizes(*command, shape);
    addWriteOptions(*command, options);
    command->footer(fmt::format("Example:\n  mtmodel {0} -o {0}.onnx", family.name));
    command->add_option("--seed", options.seed, "of the initial weights")->type_name("N")->capture_default_str();
    command->add_flag("--weights", options.weights, "write the values too, as MODEL.onnx.data");
    command->callback([&chosen, &family] { chosen = &family; });
  }
  std::string folder;
  CLI::App *fromHf = app.add_subcommand("from-hf", "the graph of a Hugging Face checkpoint folder; its weights stay there");
  fromHf->add_option("DIR", folder, "the folder, with config.json and *.safetensors")->required();
  fromHf->footer("Example:\n  mtmodel from-hf checkpoint/ -o model.onnx");
  addWriteOptions(*fromHf, options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    return usage(error.what());
  }
  if (!chosen)
    return report(models::writeCheckpointGraph(folder, options), options.output);
  const Result<models::Shape> complete = models::completeShape(*chosen, shape);
  return complete ? report(models::writeFamily(*chosen, *complete, options), options.output)
                  : usage(complete.status().message());
}
