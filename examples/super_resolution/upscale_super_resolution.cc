// Makes pictures 4 times larger; see upscale_super_resolution --help and docs/super_resolution.md.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/super_resolution/tiled_upscaling.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/image/png_writer.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/models/image_generator.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/output_folder.h"
#include "millrace/trainer/stop_signals.h"

namespace {

using namespace millrace;
namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr const char* kAbout =
    "Makes pictures, JPEG or PNG, 4 times larger and writes them as PNG. In memory are the picture and a row of tiles\n"
    "of the result. Grey pictures become grey ones of three colours, what is not opaque is laid over white, EXIF\n"
    "orientation is heeded.";

struct Options {
  std::string model;
  std::vector<std::string> paths;
  std::string out;
  Tiling tiling;
  bool json = false;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("model", po::value(&options.model), "folder of a generator: OUT/model of a training")
      ("out", po::value(&options.out), "a folder, local or s3://BUCKET/FOLDER, gs://…, for several pictures: NAME.png of each")
      ("json", "one JSON object instead of text");
  add_tiling_options(visible, options.tiling);
  po::options_description positional;
  positional.add_options()("picture", po::value(&options.paths)->composing());
  // clang-format on
  const auto given = parse_command_line(argc, argv,
                                        {.name = "upscale_super_resolution",
                                         .about = kAbout,
                                         .usage = "--model DIR (PICTURE OUT.png | PICTURE... --out DIR) [options]"},
                                        visible, {"picture..."}, positional);
  if (!given) return std::nullopt;
  require(!options.model.empty(), "--model is needed");
  options.json = given->contains("json");
  return options;
}

void need_another_file(const std::string& from, const std::string& to) {
  std::error_code not_there;
  require(from != to && !fs::equivalent(from, to, not_there), fmt::format("{} would replace itself", from));
}

// Pictures and what they become.
std::vector<std::pair<std::string, std::string>> files_of(const Options& options) {
  if (options.out.empty()) {
    require(options.paths.size() == 2, "a picture and OUT.png are needed, or pictures and --out DIR");
    require(options.paths[1].ends_with(".png"), fmt::format("'{}' must end in .png", options.paths[1]));
    need_another_file(options.paths[0], options.paths[1]);
    return {{options.paths[0], options.paths[1]}};
  }
  std::vector<std::pair<std::string, std::string>> files;
  std::set<std::string> made;
  for (const std::string& path : listed_pictures(options.paths)) {
    files.emplace_back(path, (fs::path(options.out) / (picture_name(path) + ".png")).string());
    require(made.insert(files.back().second).second, fmt::format("two pictures would become {}", files.back().second));
    need_another_file(path, files.back().second);
  }
  require(!files.empty(), "no picture is given");
  return files;
}

int run(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options) return 0;
  const auto files = files_of(*options);
  Tiling& tiling = options->tiling;
  const WorkerLimit limit(checked_threads(tiling.threads));
  const TrainedGenerator generator(model_folder(local_copy(options->model), "train_super_resolution"));
  const Upscaler upscaler = upscaler_of(generator);
  if (!options->out.empty() && !RemoteStorage::opens(options->out)) make_folder(options->out);
  const StopSignals signals;
  tiling.stop_requested = [&] { return signals.requested(); };
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const auto& [from, to] : files) {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<TerminalLine> line(std::in_place);
    tiling.on_progress = [&, &path = from](int64_t done, int64_t all) {
      if (line->due()) line->show(fmt::format("{}: tile {} of {}", path, done, all));
    };
    const RgbImage<float> image = to_floats(read_picture(from));
    const int64_t height = kUpscaling * image.height;
    const int64_t width = kUpscaling * image.width;
    PngWriter png(height, width, kColours);
    const std::unique_ptr<OutputFile> file = open_output_anywhere(to);
    std::vector<uint8_t> bytes;
    if (!upscale_in_tiles(image, upscaler, tiling, [&](std::span<const float> rows) {
          bytes.resize(rows.size());
          round_to_bytes(rows, bytes);
          file->write(png.write_rows(bytes));
        })) {
      line.reset();
      std::cerr << "upscale_super_resolution: interrupted; " << to << " is not written\n";
      return signals.exit_code();
    }
    file->write(png.finish());
    file->commit();
    line.reset();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    report.push_back({{"picture", from}, {"out", to}, {"height", height}, {"width", width}, {"seconds", took.count()}});
    if (!options->json) std::cout << fmt::format("{}: {} x {} pixels in {:.1f} s\n", to, width, height, took.count());
  }
  if (options->json) std::cout << json_line(nlohmann::ordered_json{{"pictures", report}}) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("upscale_super_resolution", [&] { return run(argc, argv); });
}
