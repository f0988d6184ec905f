#include "examples/super_resolution/rgb_image.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/image/png_writer.h"
#include "tests/examples/super_resolution/small_pictures.h"
#include "tests/support/encoded_pictures.h"
#include "tests/support/temporary_folder.h"

namespace millrace::rgb_image_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ListedPictures, AreFilesAsTheyAreNamedAndThoseOfFoldersByTheirEndingEachOnce) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("more/inner.png"));
  for (const char* name : {"b.jpg", "a.PNG", "c.Jpeg", "f.jpeg", "notes.txt", "d.png.bak"})
    test::write_file(folder.path(name), "x");
  std::filesystem::create_directories(folder.path("deeper"));
  test::write_file(folder.path("deeper/e.png"), "x");
  EXPECT_THAT(listed_pictures({folder.path("notes.txt"), folder.path("c.Jpeg"), folder.path("")}),
              ElementsAre(folder.path("notes.txt"), folder.path("c.Jpeg"), folder.path("a.PNG"), folder.path("b.jpg"),
                          folder.path("f.jpeg")));
  EXPECT_THAT(listed_pictures({"no/such.jpg"}), ElementsAre("no/such.jpg"));
  EXPECT_EQ(picture_name("a/b.c/Some Name.x.jpeg"), "Some Name.x");
}

TEST(ReadPicture, TakesGreyAsColoursLaysAlphaOverWhiteAndTurnsUpright) {
  const auto pixels_of = [](const std::string& bytes) { return decode_picture(bytes, "x.png").pixels; };
  EXPECT_THAT(pixels_of(write_png(std::vector<uint8_t>{7, 9}, 1, 2, 1)), ElementsAre(7, 7, 7, 9, 9, 9));
  EXPECT_THAT(pixels_of(write_png(std::vector<uint8_t>{10, 20, 30, 255, 10, 20, 30, 0, 155, 55, 255, 51}, 1, 3, 4)),
              ElementsAre(10, 20, 30, 255, 255, 255, 235, 215, 255));
  // Turned clockwise: the only row becomes a column.
  const test::Picture row{1, 2, 3, {1, 2, 3, 4, 5, 6}};
  const std::string exif = test::png_chunk("eXIf", test::exif_data(6));
  const RgbImage<uint8_t> upright = decode_picture(test::written_png(row, {.chunks = exif}), "x.png");
  EXPECT_EQ(upright.height, 2);
  EXPECT_EQ(upright.width, 1);
  EXPECT_EQ(upright.pixels, row.pixels);
}

TEST(ReadPicture, NamesTheFileThatIsNoPicture) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("text.jpg"), "no picture");
  for (const char* name : {"text.jpg", "missing.jpg"}) {
    try {
      (void)read_picture(folder.path(name));
      ADD_FAILURE() << name;
    } catch (const ErrorException& exception) {
      EXPECT_THAT(exception.what(), HasSubstr(name));
    }
  }
}

TEST(RgbImage, RoundsAndCutsValues) {
  std::vector<uint8_t> bytes(6);
  round_to_bytes(std::vector<float>{-0.5F, 0, 0.499F / 255, 0.6F / 255, 254.4F / 255, 1.2F}, bytes);
  EXPECT_THAT(bytes, ElementsAre(0, 0, 0, 1, 254, 255));
  const RgbImage<uint8_t> image = test::drawn_image(16, 16, 1);
  EXPECT_EQ(to_bytes(to_floats(image)).pixels, image.pixels);
}

TEST(RgbImage, IsCroppedWhereTheRegionLies) {
  RgbImage<uint8_t> image{.height = 3, .width = 3};
  for (uint8_t i = 0; i < 9; ++i) image.pixels.insert(image.pixels.end(), {i, i, i});
  const RgbImage<uint8_t> part = cropped(image, {.top = 1, .left = 1, .height = 2, .width = 1});
  EXPECT_EQ(part.height, 2);
  EXPECT_EQ(part.width, 1);
  EXPECT_THAT(part.pixels, ElementsAre(4, 4, 4, 7, 7, 7));
}

TEST(RgbImage, ShrinksByAWholeFactorWithoutWhatIsLeftOver) {
  RgbImage<uint8_t> image{.height = 9, .width = 14};
  image.pixels.assign(9 * 14 * 3, 0);
  for (int64_t y = 0; y < 9; ++y) {
    for (int64_t x = 0; x < 14; ++x) {
      for (int64_t c = 0; c < 3; ++c)
        image.pixels[static_cast<size_t>((y * 14 + x) * 3 + c)] = y < 8 && x < 12 ? 90 : 255;
    }
  }
  const RgbImage<uint8_t> half = shrunk(image, 4);
  EXPECT_EQ(half.height, 2);
  EXPECT_EQ(half.width, 3);
  EXPECT_EQ(half.pixels, std::vector<uint8_t>(18, 90));
  EXPECT_EQ(shrunk(image, 1).pixels, image.pixels);
  EXPECT_EQ(shrunk(image, 10).height, 0);
}

TEST(RgbImage, BicubicStaysWithinZeroAndOne) {
  RgbImage<float> edge{.height = 8, .width = 8};
  for (int i = 0; i < 64; ++i) edge.pixels.insert(edge.pixels.end(), 3, i % 8 < 4 ? 0.0F : 1.0F);
  const std::vector<float> larger = bicubic(edge, 32, 32).pixels;
  EXPECT_EQ(*std::ranges::min_element(larger), 0);
  EXPECT_EQ(*std::ranges::max_element(larger), 1);
}

}  // namespace
}  // namespace millrace::rgb_image_test
