// Makes a generator between two; see interpolate_super_resolution --help and docs/super_resolution.md.
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/local.h"
#include "millrace/trainer/models/image_generator.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

struct Options {
  std::string first;
  std::string second;
  std::string out;
  double alpha = 0.8;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description all("options");
  // clang-format off
  all.add_options()
      ("first", po::value(&options.first), "folder of a model: of the phase with pixel losses")
      ("second", po::value(&options.second), "folder of another of the same sizes: of the phase with a GAN")
      ("alpha", real_number(options.alpha, {0, 1}), "share of the second: each weight is (1 - alpha) first + alpha second")
      ("out", po::value(&options.out), "folder to write, a local one")
      ("overwrite", "replace it where it is there");
  // clang-format on
  const auto given = parse_command_line(
      argc, argv,
      {.name = "interpolate_super_resolution",
       .about = "Interpolates the weights of two generators (network interpolation: ESRGAN, section 3.4).",
       .usage = "--first DIR --second DIR --out DIR [options]"},
      all);
  if (!given) return std::nullopt;
  for (const auto& [name, value] :
       {std::pair{"first", &options.first}, {"second", &options.second}, {"out", &options.out}}) {
    require(!value->empty(), fmt::format("--{} is missing", name));
  }
  require(given->contains("overwrite") || !std::filesystem::exists(options.out),
          fmt::format("{} is there already; --overwrite replaces it", options.out));
  return options;
}

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  const TrainedGenerator first(options->first);
  const TrainedGenerator second(options->second);
  const GeneratorConfig& config = first.generator().config();
  if (second.generator().config() != config) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} is {}, and {} is {}", options->first, config.describe(), options->second,
                                     second.generator().config().describe()));
  }
  FlatBuffer weights(first.layout().size());
  for (size_t i = 0; i < weights.span().size(); ++i) {
    weights.span()[i] = static_cast<float>((1 - options->alpha) * first.weights()[i] +
                                           options->alpha * static_cast<double>(second.weights()[i]));
  }
  require_no_url(options->out);
  make_folder(std::filesystem::absolute(options->out).parent_path().string());
  AtomicDirectory directory(options->out);
  save_generator_config(directory.temporary_path(), config);
  save_generator_weights(directory.temporary_path(), first.layout(), first.generator(), weights.span());
  directory.commit();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("interpolate_super_resolution", [&] { return run(argc, argv); });
}
