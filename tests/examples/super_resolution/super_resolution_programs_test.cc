// prepare_super_resolution, upscale_super_resolution and measure_super_resolution as processes.
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "examples/super_resolution/quality.h"
#include "examples/super_resolution/tiled_upscaling.h"
#include "millrace/formats/image/png_writer.h"
#include "millrace/trainer/models/vgg.h"
#include "tests/examples/super_resolution/small_pictures.h"
#include "tests/support/child_process.h"
#include "tests/support/killed_runs.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::super_resolution_programs_test {
namespace {

namespace fs = std::filesystem;
using test::ChildProcess;
using test::ChildResult;
using test::drawn_image;
using test::run_child;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Command = std::vector<std::string>;

Command operator+(Command command, const Command& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// Three pictures and a small generator, made once.
class SuperResolutionPrograms : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new test::TemporaryFolder;
    fs::create_directories(path("pictures"));
    for (const char* name : {"one", "two", "three"}) {
      test::write_picture(path("pictures/") + name + ".png",
                          drawn_image(70, 50 + 20 * std::ssize(std::string(name)), name[1]));
    }
    test::write_generator(path("model"), {.blocks = 1, .channels = 6, .growth = 4});
  }
  static void TearDownTestSuite() {
    delete data_;
    data_ = nullptr;
  }
  static std::string path(const std::string& name) { return data_->path(name); }
  static std::string picture(const std::string& name) { return path("pictures/" + name + ".png"); }

  static Command prepare(const std::string& out, const Command& more = {}) {
    return Command{test::kPrepareSuperResolution, "--pictures", path("pictures"), "--out", path(out)} + more;
  }
  static Command upscale(const Command& more) {
    return Command{test::kUpscaleSuperResolution, "--model", path("model")} + more;
  }
  static Command measure(const Command& more) { return Command{test::kMeasureSuperResolution} + more; }
  static ChildResult succeed(const Command& command) {
    ChildResult result = run_child(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }
  // The error of a command that must fail, which is one line.
  static std::string refusal(const Command& command) {
    const ChildResult result = run_child(command);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  }

  static test::TemporaryFolder* data_;
};

test::TemporaryFolder* SuperResolutionPrograms::data_ = nullptr;

TEST_F(SuperResolutionPrograms, PrepareSaysWhatItWrote) {
  const Command small = {"--crop", "32", "--held-out", "two", "three"};
  EXPECT_THAT(succeed(prepare("shards", small)).out,
              AllOf(HasSubstr("crops of 32 pixels: 12 of 1 pictures to train on, 27 of 2 held out\nwritten to ")));
  const auto json = nlohmann::json::parse(succeed(prepare("shards", small + Command{"--json"})).out);
  EXPECT_EQ(json, nlohmann::json::parse(test::read_file(path("shards/statistics.json"))));
  EXPECT_TRUE(fs::exists(path("shards/validation/dataset.7.tfrecord")));
  test::write_picture(path("tiny.png"), drawn_image(63, 90, 1));
  fs::copy_file(picture("one"), path("one2.png"));
  EXPECT_THAT(succeed({test::kPrepareSuperResolution, "--pictures", picture("one"), path("tiny.png"), path("one2.png"),
                       "--out", path("more"), "--crop", "64"})
                  .out,
              AllOf(HasSubstr("left out, smaller than crops of 64 pixels: tiny\n"),
                    HasSubstr("left out, with the bytes of one before: one2\n")));
}

TEST_F(SuperResolutionPrograms, PrepareRefusesInOneLineWhatCannotBe) {
  EXPECT_THAT(refusal({test::kPrepareSuperResolution, "--out", path("x")}),
              HasSubstr("--pictures and --out are needed"));
  EXPECT_THAT(refusal(prepare("x", {"--crop", "30"})), HasSubstr("--crop is 30, must be a multiple of 4"));
  EXPECT_THAT(refusal(prepare("x", {"--preset", "small"})), HasSubstr("--preset is 'small', must be original"));
  EXPECT_THAT(refusal(prepare("x", {"--preset", "original", "--crop", "64"})),
              HasSubstr("--crop is what --preset has"));
  EXPECT_THAT(refusal(prepare("x", {"--preset", "original"})),
              HasSubstr("of 3 pictures 0 are held out, 3 are smaller than crops of 512 pixels"));
  EXPECT_THAT(refusal(prepare("x", {"--crops-per-picture", "5", "--stride", "4"})), HasSubstr("--stride is of a grid"));
  EXPECT_THAT(refusal(prepare("x", {"--held-out", "four"})), HasSubstr("no picture has the name 'four'"));
  EXPECT_FALSE(fs::exists(path("x")));
}

// MILLRACE_KILLS: how many.
TEST_F(SuperResolutionPrograms, KilledPreparationsLeaveNothingHalfWritten) {
  const Command options = {"--crop", "16", "--crops-per-picture", "300", "--held-out", "one"};
  succeed(prepare("whole", options));
  test::kill_preparations(prepare("killed", options), path("killed"), test::files_below(path("whole")),
                          test::num_kills(2, 50));
}

TEST_F(SuperResolutionPrograms, UpscaleWritesWhatTheModelMakes) {
  const Command tiles = {"--tile", "16"};
  EXPECT_THAT(succeed(upscale(Command{picture("one"), path("large.png")} + tiles)).out,
              HasSubstr("large.png: 440 x 280 pixels in "));
  const TrainedGenerator generator(path("model"));
  const RgbImage<uint8_t> original = drawn_image(70, 110, 'n');
  const RgbImage<uint8_t> expected = upscaled(to_floats(original), upscaler_of(generator), {.tile = 16});
  const std::string bytes = test::read_file(path("large.png"));
  EXPECT_TRUE(bytes == write_png(expected.pixels, 280, 440, 3));
  for (const char* threads : {"1", "2", "8"}) {
    succeed(upscale(Command{picture("one"), path("again.png"), "--threads", threads} + tiles));
    EXPECT_TRUE(test::read_file(path("again.png")) == bytes) << threads;
  }
  const auto json = nlohmann::json::parse(
      succeed(upscale(Command{path("pictures"), "--out", path("made/all"), "--json"} + tiles)).out);
  EXPECT_EQ(json.at("pictures").size(), 3U);
  EXPECT_EQ(json.at("pictures")[0].at("width"), 440);
  EXPECT_TRUE(test::read_file(path("made/all/one.png")) == bytes);
  EXPECT_EQ(test::files_below(path("made")).size(), 3U);
}

TEST_F(SuperResolutionPrograms, UpscaleRefusesInOneLineWhatCannotBe) {
  EXPECT_THAT(refusal({test::kUpscaleSuperResolution, picture("one"), path("x.png")}), HasSubstr("--model is needed"));
  EXPECT_THAT(refusal(upscale({picture("one")})), HasSubstr("a picture and OUT.png are needed, or pictures and --out"));
  EXPECT_THAT(refusal(upscale({picture("one"), path("x.jpg")})), HasSubstr("x.jpg' must end in .png"));
  EXPECT_THAT(refusal(upscale({picture("one"), picture("one")})), HasSubstr("one.png would replace itself"));
  EXPECT_THAT(refusal(upscale({picture("one"), "--out", path("pictures")})), HasSubstr("one.png would replace itself"));
  fs::create_directories(path("others"));
  fs::copy_file(picture("one"), path("others/one.jpg"), fs::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(upscale({picture("one"), path("others/one.jpg"), "--out", path("x")})),
              HasSubstr("two pictures would become "));
  EXPECT_THAT(refusal(upscale({path("nothing.png"), path("x.png")})), HasSubstr("nothing.png"));
  EXPECT_THAT(refusal({test::kUpscaleSuperResolution, "--model", path("pictures"), picture("one"), "--out", path("x")}),
              HasSubstr("no model in '" + path("pictures") + "' (no config.json); train_super_resolution writes one"));
  EXPECT_THAT(refusal({test::kUpscaleSuperResolution, "--model", path("pictures"), picture("one"), path("x.png")}),
              HasSubstr("no model in '" + path("pictures") + "' (no config.json); train_super_resolution writes one"));
  EXPECT_FALSE(fs::exists(path("x.png")));
  EXPECT_FALSE(fs::exists(path("x")));
}

TEST_F(SuperResolutionPrograms, UpscaleThatIsStoppedLeavesTheOldPicture) {
  test::write_picture(path("big.png"), drawn_image(600, 600, 9));
  test::write_file(path("kept.png"), "old");
  ChildProcess child(upscale({path("big.png"), path("kept.png"), "--tile", "16", "--threads", "1"}));
  // When its file is begun, it has taken over the signal.
  const auto begun = [&] {
    return std::ranges::any_of(fs::directory_iterator(path("")), [](const auto& entry) {
      return entry.path().filename().string().starts_with("kept.png.tmp-");
    });
  };
  while (!begun()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  child.signal(SIGINT);
  const ChildResult result = child.wait();
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("upscale_super_resolution: interrupted; "));
  EXPECT_EQ(test::read_file(path("kept.png")), "old");
}

TEST_F(SuperResolutionPrograms, MeasurePrintsTheFiguresOfEachPictureAndTheirMean) {
  Vgg::drawn({{4}, {8}}, 3).write(path("features.safetensors"));
  const Command command = measure({"--pictures", picture("one"), picture("three"), "--model", "small=" + path("model"),
                                   "--features", path("features.safetensors"), "--tile", "16"});
  const auto json = nlohmann::json::parse(succeed(command + Command{"--json"}).out);
  ASSERT_EQ(json.at("pictures").size(), 2U);
  const TrainedGenerator generator(path("model"));
  const Vgg network = Vgg::read(path("features.safetensors"));
  double sum = 0;
  for (const auto& [name, at] : {std::pair("one", 0), {"three", 1}}) {
    RgbImage<uint8_t> original = read_picture(picture(name));
    original = cropped(original, {.height = 68, .width = original.width / 4 * 4});  // of 70 rows
    const RgbImage<float> quarter = bicubic(to_floats(original), 17, original.width / 4);
    const RgbImage<uint8_t> back = to_bytes(bicubic(quarter, 68, original.width));
    const RgbImage<uint8_t> made = upscaled(quarter, upscaler_of(generator), {.tile = 16});
    const auto& results = json.at("pictures")[at].at("results");
    EXPECT_TRUE(results.at("original").at("psnr_rgb").is_null());
    EXPECT_EQ(results.at("original").at("feature_distance"), 0);
    EXPECT_EQ(results.at("original").at("gradient"), quality_of(original, original).gradient);
    for (const auto& [model, image] : {std::pair("bicubic", back), {"small", made}}) {
      const ImageQuality quality = quality_of(image, original);
      EXPECT_EQ(results.at(model).at("psnr_rgb"), quality.psnr_rgb);
      EXPECT_EQ(results.at(model).at("psnr_y"), quality.psnr_y);
      EXPECT_EQ(results.at(model).at("gradient"), quality.gradient);
      EXPECT_EQ(results.at(model).at("feature_distance"), feature_distances({original, image}, network, 1)[1]);
    }
    sum += results.at("bicubic").at("psnr_y").get<double>();
  }
  EXPECT_DOUBLE_EQ(json.at("mean").at("bicubic").at("psnr_y").get<double>(), sum / 2);
  EXPECT_EQ(nlohmann::json::parse(succeed(command + Command{"--json", "--threads", "1"}).out), json);
  EXPECT_THAT(succeed(command).out,
              AllOf(HasSubstr(" psnr_rgb "), HasSubstr(" feature_distance\n"), HasSubstr("one.png\n"),
                    HasSubstr("bicubic "), HasSubstr("small "), HasSubstr("\nmean\n")));
}

TEST_F(SuperResolutionPrograms, MeasureSavesPartsToLookAt) {
  succeed(measure({"--pictures", picture("one"), "--model", "a=" + path("model"), "b=" + path("model"), "--save",
                   path("looks"), "--tile", "16"}));
  const RgbImage<uint8_t> sheet = read_picture(path("looks/one.png"));
  EXPECT_EQ(read_picture(path("looks/one.small.png")).pixels,
            to_bytes(bicubic(to_floats(cropped(drawn_image(70, 110, 'n'), {0, 0, 68, 108})), 17, 27)).pixels);
  // One part of 68 x 68 fits, of the original, bicubic and two models; three times larger, 8 pixels between them.
  EXPECT_EQ(sheet.height, 3 * 68);
  EXPECT_EQ(sheet.width, 4 * 3 * 68 + 3 * 8);
  const RgbImage<uint8_t> original = drawn_image(70, 110, 'n');
  for (const int64_t at : {0, 1, 40, 67}) {
    const auto shown = cropped(sheet, {3 * at + 2, 3 * at, 1, 1}).pixels;
    EXPECT_EQ(shown, cropped(original, {at, at, 1, 1}).pixels);
  }
  EXPECT_EQ(cropped(sheet, {0, 3 * 68, 1, 8}).pixels, std::vector<uint8_t>(24, 255));
  EXPECT_NE(cropped(sheet, {0, 3 * 68 + 8, 60, 60}).pixels, cropped(sheet, {0, 0, 60, 60}).pixels);
}

TEST_F(SuperResolutionPrograms, MeasureRefusesInOneLineWhatCannotBe) {
  EXPECT_THAT(refusal(measure({})), HasSubstr("--pictures is needed"));
  EXPECT_THAT(refusal(measure({"--pictures", picture("one"), "--model", path("model")})),
              HasSubstr("must be NAME=DIR"));
  EXPECT_THAT(refusal(measure({"--pictures", picture("one"), "--model", "a=" + path("model"), "a=" + path("model")})),
              HasSubstr("two results are called 'a'"));
  EXPECT_THAT(refusal(measure({"--pictures", picture("one"), "--model", "bicubic=" + path("model")})),
              HasSubstr("two results are called 'bicubic'"));
  EXPECT_THAT(refusal(measure({"--pictures", picture("one"), "--shrink", "7"})), HasSubstr("one.png is too small"));
  EXPECT_THAT(refusal(measure({"--pictures", path("model")})), HasSubstr("there is no picture"));
  fs::create_directories(path("same"));
  fs::copy_file(picture("one"), path("same/one.jpg"));
  EXPECT_THAT(refusal(measure({"--pictures", picture("one"), path("same/one.jpg"), "--save", path("x")})),
              HasSubstr("--save: two pictures are called one"));
  EXPECT_FALSE(fs::exists(path("x")));
}

}  // namespace
}  // namespace millrace::super_resolution_programs_test
