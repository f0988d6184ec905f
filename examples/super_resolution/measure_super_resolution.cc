// How good models are that make pictures larger; see measure_super_resolution --help and docs/super_resolution.md.
#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "examples/super_resolution/quality.h"
#include "examples/super_resolution/tiled_upscaling.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/image/png_writer.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/models/image_generator.h"
#include "millrace/trainer/models/vgg.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/output_folder.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

constexpr const char* kAbout =
    "Makes pictures 4 times smaller (bicubic, with antialiasing, not rounded) and larger again, by bicubic\n"
    "interpolation and by models, and says how near they come to the original: PSNR in dB, of red, green and blue and\n"
    "of luma (BT.601); the mean magnitude of the luma's gradient, in levels of 255; the distance in the features of a\n"
    "frozen network. Results are rounded to 8 bits, and 4 pixels at each border do not count, but for the features.\n"
    "Sides are cut to multiples of 4.";

struct Options {
  std::vector<std::string> pictures;
  std::vector<std::pair<std::string, std::string>> models;  // name and folder
  std::string features;
  std::string save;
  int64_t shrink = 1;
  Tiling tiling;
  bool json = false;
};

// Figures of an image that was made of the smaller one, or of the original: of kFigures those that are asked for.
struct Result {
  std::string name;
  std::vector<double> figures;
};
using Results = std::vector<Result>;
constexpr std::array kFigures = {"psnr_rgb", "psnr_y", "gradient", "feature_distance"};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  std::vector<std::string> models;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("pictures", po::value(&options.pictures)->multitoken(), "files, and folders whose *.jpg, *.jpeg and *.png are taken")
      ("model", po::value(&models)->multitoken()->composing(), "NAME=DIR: the folder of a generator and what it is called; several "
       "may be given")
      ("features", po::value(&options.features), "safetensors file of a VGG with torchvision's names: also the distance in its features")
      ("save", po::value(&options.save), "write to this folder, as NAME.png, of each picture the three parts with the steepest "
       "gradients: the original, bicubic, each model; three times larger, to look at. And as NAME.small.png what was made larger")
      ("shrink", whole_number(options.shrink, {1, 64}), "first make pictures so many times smaller, as prepare_super_resolution does")
      ("json", "one JSON object instead of text");
  // clang-format on
  add_tiling_options(visible, options.tiling);
  const auto given = parse_command_line(argc, argv,
                                        {.name = "measure_super_resolution",
                                         .about = kAbout,
                                         .usage = "--pictures FILES... [--model NAME=DIR...] [options]"},
                                        visible);
  if (!given) return std::nullopt;
  require(!options.pictures.empty(), "--pictures is needed");
  std::set<std::string> names = {"original", "bicubic"};
  for (const std::string& model : models) {
    const size_t equals = model.find('=');
    require(equals != std::string::npos && equals > 0, fmt::format("--model is '{}', must be NAME=DIR", model));
    options.models.emplace_back(model.substr(0, equals), model.substr(equals + 1));
    require(names.insert(options.models.back().first).second,
            fmt::format("two results are called '{}'", options.models.back().first));
  }
  options.json = given->contains("json");
  return options;
}

// Three parts of each image, a row for each part, enlarged without smoothing.
void save_parts(const std::vector<RgbImage<uint8_t>>& images, const std::string& path) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kEnlarged = 3;
  constexpr int64_t kGap = 8;
  const RgbImage<uint8_t>& original = images.front();
  const int64_t side = std::min({int64_t{96}, original.height, original.width});
  std::vector<std::pair<double, ImageRegion>> parts;
  for (int64_t top = 0; top + side <= original.height; top += side) {
    for (int64_t left = 0; left + side <= original.width; left += side) {
      const ImageRegion part{top, left, side, side};
      const RgbImage<uint8_t> image = cropped(original, part);
      parts.emplace_back(quality_of(image, image).gradient, part);
    }
  }
  std::ranges::stable_sort(parts, std::greater(), [](const auto& part) { return part.first; });
  parts.resize(std::min<size_t>(parts.size(), kRows));
  const int64_t step = kEnlarged * side + kGap;
  const int64_t height = step * std::ssize(parts) - kGap;
  const int64_t width = step * std::ssize(images) - kGap;
  std::vector<uint8_t> pixels(static_cast<size_t>(height * width * kColours), 255);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      if (y % step >= kEnlarged * side || x % step >= kEnlarged * side) continue;
      const ImageRegion& part = parts[static_cast<size_t>(y / step)].second;
      const RgbImage<uint8_t>& image = images[static_cast<size_t>(x / step)];
      const int64_t from = (part.top + y % step / kEnlarged) * image.width + part.left + x % step / kEnlarged;
      std::copy_n(image.pixels.begin() + from * kColours, kColours, pixels.begin() + (y * width + x) * kColours);
    }
  }
  write_atomically(path, write_png(pixels, height, width, kColours));
}

// What is made of a picture.
Results results_of(const std::string& path, const Options& options,
                   const std::vector<std::unique_ptr<const TrainedGenerator>>& generators, const Vgg* network) {
  const RgbImage<uint8_t> picture = shrunk(read_picture(path), options.shrink);
  const int64_t height = picture.height / kUpscaling;
  const int64_t width = picture.width / kUpscaling;
  require(std::min(height, width) >= kUpscaling, fmt::format("{} is too small to be measured", path));
  std::vector<RgbImage<uint8_t>> images = {
      cropped(picture, {.height = kUpscaling * height, .width = kUpscaling * width})};
  const RgbImage<float> quarter = bicubic(to_floats(images[0]), height, width);
  images.push_back(to_bytes(bicubic(quarter, kUpscaling * height, kUpscaling * width)));
  Results results = {{.name = "original"}, {.name = "bicubic"}};
  TerminalLine line;
  for (size_t i = 0; i < generators.size(); ++i) {
    results.push_back({.name = options.models[i].first});
    Tiling tiling = options.tiling;
    tiling.on_progress = [&](int64_t done, int64_t all) {
      if (line.due()) line.show(fmt::format("{}, {}: tile {} of {}", path, results.back().name, done, all));
    };
    images.push_back(upscaled(quarter, upscaler_of(*generators[i]), tiling));
  }
  std::vector<double> distances;
  if (network != nullptr) distances = feature_distances(images, *network, checked_threads(options.tiling.threads));
  for (size_t i = 0; i < results.size(); ++i) {
    const ImageQuality quality = quality_of(images[i], images[0]);
    results[i].figures = {quality.psnr_rgb, quality.psnr_y, quality.gradient};
    if (network != nullptr) results[i].figures.push_back(distances[i]);
  }
  if (!options.save.empty()) {
    const std::string name = options.save + "/" + picture_name(path);
    save_parts(images, name + ".png");
    write_atomically(name + ".small.png", write_png(to_bytes(quarter).pixels, height, width, kColours));
  }
  return results;
}

Results mean_of(const std::vector<Results>& pictures) {
  Results means = pictures.front();
  for (size_t i = 0; i < means.size(); ++i) {
    for (size_t k = 0; k < means[i].figures.size(); ++k) {
      double sum = 0;
      for (const Results& results : pictures) sum += results[i].figures[k];
      means[i].figures[k] = sum / static_cast<double>(pictures.size());
    }
  }
  return means;
}

// What is infinite is null.
nlohmann::ordered_json json_of(const Results& results) {
  nlohmann::ordered_json json;
  for (const auto& [name, figures] : results) {
    for (size_t k = 0; k < figures.size(); ++k) json[name][kFigures[k]] = figures[k];
  }
  return json;
}

std::string text_of(const std::string& title, const Results& results) {
  std::string text = title + "\n";
  for (const auto& [name, figures] : results) text += fmt::format("  {:<22}{:>18.4f}\n", name, fmt::join(figures, ""));
  return text;
}

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  const WorkerLimit limit(checked_threads(options->tiling.threads));
  const std::vector<std::string> paths = listed_pictures(options->pictures);
  require(!paths.empty(), "there is no picture");
  std::set<std::string> names;
  for (const std::string& path : paths) {
    require(options->save.empty() || names.insert(picture_name(path)).second,
            fmt::format("--save: two pictures are called {}", picture_name(path)));
  }
  std::vector<std::unique_ptr<const TrainedGenerator>> generators;
  for (const auto& [name, folder] : options->models) {
    generators.push_back(
        std::make_unique<TrainedGenerator>(model_folder(local_copy(folder), "train_super_resolution")));
  }
  std::unique_ptr<const Vgg> network;
  if (!options->features.empty()) network = std::make_unique<const Vgg>(Vgg::read(options->features));
  if (!options->save.empty()) make_folder(options->save);
  if (!options->json) {
    const auto columns = std::span(kFigures).first(network ? 4 : 3);
    std::cout << fmt::format("{:<24}{:>18}\n", "", fmt::join(columns, "")) << std::flush;
  }
  nlohmann::ordered_json report;
  std::vector<Results> pictures;
  for (const std::string& path : paths) {
    pictures.push_back(results_of(path, *options, generators, network.get()));
    report["pictures"].push_back({{"picture", path}, {"results", json_of(pictures.back())}});
    if (!options->json) std::cout << text_of(path, pictures.back()) << std::flush;
  }
  report["mean"] = json_of(mean_of(pictures));
  std::cout << (options->json ? json_line(report) + "\n" : text_of("mean", mean_of(pictures)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("measure_super_resolution", [&] { return run(argc, argv); });
}
