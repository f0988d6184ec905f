// Lets a frozen network see pictures once and writes what it says of them; see prepare_frozen_features --help and
// docs/frozen_features.md.
#include <chrono>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/frozen_features/feature_set.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/json/names.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/stop_signals.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

constexpr const char* kAbout =
    "Lets a frozen network see pictures, a folder for each class, and writes its features and their labels into 8 "
    "shards\n"
    "to train on and 8 to test on. An earlier set in --out is replaced when the new one is whole.";

struct Options {
  FeatureSetOptions set;
  bool json = false;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  FeatureSetOptions& set = options.set;
  std::string background = "white";
  std::string damage = "fail";
  po::options_description visible("options");
  const auto text = [](std::string& target) { return po::value(&target); };
  // clang-format off
  visible.add_options()
      ("pictures", text(set.pictures.folder), "folder with a folder for each class: .png and .jpg files in it and below")
      ("out", text(set.out), "folder of the shards, local or s3://BUCKET/FOLDER, gs://…; made when it is not there")
      ("without", po::value(&set.pictures.without)->multitoken(), "folders that are no classes")
      ("classes", whole_number(set.pictures.classes, {0, limits::kFew}), "so many, those with the most pictures; 0: all")
      ("pictures-per-class", whole_number(set.pictures.pictures_per_class, {0, limits::kRows}),
       "so many of each, drawn with --seed; 0: all")
      ("test-share", real_number(set.pictures.test_share, {0, 1}), "of each class, to test on; one picture at least "
       "stays on either side")
      ("seed", whole_number(set.pictures.seed, {0, limits::kAny}), "of what is drawn of the pictures")
      ("features", text(set.features), "the network: a VGG without batch norm, as safetensors with torchvision's names. "
       "Default: a small one is drawn")
      ("size", whole_number(set.size, {1, 4096}), "the shorter side of a picture is scaled to so many pixels, and a square "
       "in the centre kept")
      ("background", text(background)->default_value(background), "white or black, over which pixels are laid that are not "
       "opaque")
      ("damage", text(damage)->default_value(damage), "a picture that cannot be decoded is an error (fail), or left out "
       "and named (skip)")
      ("threads", whole_number(set.threads, {0, limits::kThreads}), "0: one for each core. The files do not depend on it")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(
      argc, argv, {.name = "prepare_frozen_features", .about = kAbout, .usage = "--pictures DIR --out DIR [options]"},
      visible);
  if (!given) return std::nullopt;
  require(!set.pictures.folder.empty() && !set.out.empty(), "--pictures and --out are needed");
  require(damage == "fail" || damage == "skip", fmt::format("--damage is '{}', must be fail or skip", damage));
  set.skips_damage = damage == "skip";
  require(background == "white" || background == "black",
          fmt::format("--background is '{}', must be white or black", background));
  set.background.assign(3, background == "white" ? 255 : 0);
  options.json = given->contains("json");
  return options;
}

void print_report(const Options& options, const FeatureSet& set, double seconds) {
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"out", options.set.out},   {"classes", set.classes}, {"train", set.train},       {"test", set.test},
        {"left_out", set.left_out}, {"network", set.network}, {"features", set.length()}, {"seconds", seconds}};
    std::cout << json_line(json) << "\n";
    return;
  }
  for (const auto& [why, count] : set.left_out) std::cout << fmt::format("{:>8} files left out: {}\n", count, why);
  std::cout << fmt::format("{:<24}{:>8}{:>8}\n", "class", "train", "test");
  for (size_t i = 0; i < set.classes.size(); ++i) {
    std::cout << fmt::format("{:<24}{:>8}{:>8}\n", set.classes[i], set.train[i], set.test[i]);
  }
  std::cout << fmt::format("{} features a picture by {}\nwritten to {} in {:.1f} s\n", set.length(), set.network,
                           options.set.out, seconds);
}

int run(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options) return 0;
  const auto begin = std::chrono::steady_clock::now();
  const WorkerLimit limit(checked_threads(options->set.threads));
  const StopSignals signals;
  std::optional<TerminalLine> line(std::in_place);
  options->set.on_progress = [&](int64_t done, int64_t all) {
    if (line->due()) line->show(fmt::format("{} of {} pictures", done, all));
  };
  options->set.stop_requested = [&] { return signals.requested(); };
  const std::optional<FeatureSet> set = write_feature_set(options->set);
  line.reset();
  if (!set) {
    std::cerr << "prepare_frozen_features: interrupted; '" << options->set.out << "' is as it was\n";
    return signals.exit_code();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  print_report(*options, *set, took.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("prepare_frozen_features", [&] { return run(argc, argv); });
}
