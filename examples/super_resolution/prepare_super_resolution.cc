// Turns pictures into pairs of crops and their quarters; see prepare_super_resolution --help and
// docs/super_resolution.md.
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "examples/super_resolution/pair_set.h"
#include "examples/super_resolution/rgb_image.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/stop_signals.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

constexpr const char* kAbout =
    "Turns pictures, JPEG or PNG, into TFRecord shards of square crops and the same 4 times smaller (bicubic, with\n"
    "antialiasing): what a super-resolution model learns from. Values are float32 from 0 to 1. Grey pictures become\n"
    "colours, what is not opaque is laid over white, EXIF orientation is heeded. Shards of an earlier run are "
    "replaced\n"
    "when all new ones are written.";

struct Options {
  std::vector<std::string> pictures;
  std::string out;
  PairSetOptions set;
  bool json = false;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  PairSetOptions& set = options.set;
  constexpr int64_t kMostSide = 4096;
  po::options_description visible("options");
  const auto set_preset = [&](const std::string& name) {
    require(name == "original", fmt::format("--preset is '{}', must be original", name));
    set.crop = 512;
  };
  // clang-format off
  visible.add_options()
      ("pictures", po::value(&options.pictures)->multitoken(), "files, and folders whose *.jpg, *.jpeg and *.png are taken")
      ("held-out", po::value(&set.held_out)->multitoken(), "names of pictures, without ending, whose crops are for validation")
      ("out", po::value(&options.out), "folder of the shards, local or s3://BUCKET/FOLDER, gs://…; made when it is not there")
      ("crop", whole_number(set.crop, {kUpscaling, kMostSide}), "pixels of a crop's side, a multiple of 4")
      ("preset", po::value<std::string>()->notifier(set_preset), "original: crops of 512 pixels")
      ("stride", whole_number(set.stride, {0, kMostSide}), "pixels from one crop to the next, to the right and down; 0: those of a "
       "crop. The last ones end at the border")
      ("crops-per-picture", whole_number(set.crops_per_picture, {0, limits::kFew}), "so many at random places, in place of those of "
       "a grid")
      ("shrink", whole_number(set.shrink, {1, 64}), "first make pictures so many times smaller: large photographs are soft at "
       "their full size")
      ("seed", whole_number(set.seed, {0, limits::kAny}), "of the order of crops, and of random places")
      ("threads", whole_number(set.threads, {0, limits::kThreads}), "0: one for each core. The files do not depend on it")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(
      argc, argv,
      {.name = "prepare_super_resolution", .about = kAbout, .usage = "--pictures FILES... --out DIR [options]"},
      visible);
  if (!given) return std::nullopt;
  require(!options.pictures.empty() && !options.out.empty(), "--pictures and --out are needed");
  if (given->contains("preset")) refuse_given(*given, {"crop"}, "is what --preset has");
  if (set.crops_per_picture > 0) refuse_given(*given, {"stride"}, "is of a grid, and --crops-per-picture is given");
  require(set.crop % kUpscaling == 0, fmt::format("--crop is {}, must be a multiple of {}", set.crop, kUpscaling));
  options.json = given->contains("json");
  return options;
}

std::string to_text(const PairSetStatistics& statistics, const std::string& out) {
  std::string text;
  const auto left_out = [&](const std::vector<std::string>& names, const std::string& why) {
    if (!names.empty()) text += fmt::format("left out, {}: {}\n", why, fmt::join(names, " "));
  };
  left_out(statistics.too_small, fmt::format("smaller than crops of {} pixels", statistics.crop));
  left_out(statistics.repeated, "with the bytes of one before");
  const auto split = [](const PairSplit& one) { return fmt::format("{} of {}", one.elements, one.pictures.size()); };
  return text + fmt::format("crops of {} pixels: {} pictures to train on, {} held out\nwritten to {}\n",
                            statistics.crop, split(statistics.train), split(statistics.validation), out);
}

int run(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options) return 0;
  const WorkerLimit limit(checked_threads(options->set.threads));
  const StopSignals signals;
  std::optional<TerminalLine> line(std::in_place);
  options->set.stop_requested = [&] { return signals.requested(); };
  options->set.on_progress = [&](const std::string& done) {
    if (line->due()) line->show(done);
  };
  const auto statistics = write_pair_set(listed_pictures(options->pictures), options->out, options->set);
  line.reset();
  if (!statistics) {
    std::cerr << "prepare_super_resolution: interrupted; '" << options->out << "' is as it was\n";
    return signals.exit_code();
  }
  std::cout << (options->json ? printed_json(*statistics) + "\n" : to_text(*statistics, options->out));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("prepare_super_resolution", [&] { return run(argc, argv); });
}
