#include "millrace/formats/image/orientation.h"

#include <gtest/gtest.h>

#include "millrace/formats/image/jpeg_markers.h"
#include "tests/support/encoded_pictures.h"

namespace millrace::orientation_test {
namespace {

using test::exif_data;

const std::string kExif("Exif\0\0", 6);

TEST(ExifOrientation, IsReadInBothByteOrders) {
  for (const bool little_endian : {true, false}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      EXPECT_EQ(exif_orientation(exif_data(orientation, little_endian)), orientation);
    }
  }
}

TEST(ExifOrientation, IsOneForWhatIsNoOrientation) {
  EXPECT_EQ(exif_orientation(exif_data(0)), 1);
  EXPECT_EQ(exif_orientation(exif_data(9)), 1);
  EXPECT_EQ(exif_orientation(exif_data(65535)), 1);
  EXPECT_EQ(exif_orientation(""), 1);
  EXPECT_EQ(exif_orientation("II*"), 1);
  const std::string exif = exif_data(6);
  // The tags are in 22 bytes after header and count; the orientation's value stands at byte 30.
  for (size_t size = 0; size < 34; ++size) EXPECT_EQ(exif_orientation(exif.substr(0, size)), 1) << size;
  EXPECT_EQ(exif_orientation(exif.substr(0, 34)), 6);
  std::string other = exif;
  other[2] = 43;  // no TIFF
  EXPECT_EQ(exif_orientation(other), 1);
  other = exif;
  other[7] = '\xff';  // a place far away
  EXPECT_EQ(exif_orientation(other), 1);
  other = exif;
  other[24] = 2;  // a text
  EXPECT_EQ(exif_orientation(other), 1);
  other = exif;
  other[26] = 2;  // two numbers
  EXPECT_EQ(exif_orientation(other), 1);
}

TEST(JpegOrientation, IsThatOfTheExifSegmentBeforeTheFirstScan) {
  const std::string jpeg = test::written_jpeg(test::drawn_picture(20, 20, 3));
  constexpr uint8_t kApplication1 = JpegMarkers::kApplication1;
  EXPECT_EQ(jpeg_orientation(jpeg), 1);
  std::string bytes = test::with_segment(jpeg, kApplication1, kExif + exif_data(6));
  EXPECT_EQ(jpeg_orientation(bytes), 6);
  bytes = test::with_segment(bytes, kApplication1, "http://ns.adobe.com/xap/1.0/");
  EXPECT_EQ(jpeg_orientation(bytes), 6);
  bytes.insert(2, "\xff\xff\xff");  // a marker may have any number of these before it
  EXPECT_EQ(jpeg_orientation(bytes), 6);
  EXPECT_EQ(jpeg_orientation(test::with_segment(jpeg, 0xe2, kExif + exif_data(6))), 1);
  const size_t scan = test::place_of_marker(jpeg, JpegMarkers::kStartOfScan);
  const std::string behind = test::with_segment("  ", kApplication1, kExif + exif_data(6)).substr(2);
  EXPECT_EQ(jpeg_orientation(jpeg.substr(0, scan) + behind + jpeg.substr(scan)), 6);
  EXPECT_EQ(jpeg_orientation(jpeg.substr(0, jpeg.size() - 2) + behind + "\xff\xd9"), 1);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_LE(jpeg_orientation(bytes.substr(0, size)), 6);
}

TEST(JpegScans, AreCounted) {
  const test::Picture picture = test::drawn_picture(50, 60, 3);
  EXPECT_EQ(count_jpeg_scans(test::written_jpeg(picture, {.restart_interval = 1}), 100), 1);
  EXPECT_EQ(count_jpeg_scans(test::written_jpeg(picture, {.scan_for_each_component = true}), 100), 3);
  const std::string progressive = test::written_jpeg(picture, {.progressive = true});
  EXPECT_EQ(count_jpeg_scans(progressive, 100), 10);
  EXPECT_EQ(count_jpeg_scans(progressive, 4), 5);
  EXPECT_EQ(count_jpeg_scans(progressive.substr(0, 2), 4), 0);
  EXPECT_EQ(count_jpeg_scans("", 4), 0);
}

TEST(StoredRegion, IsWhereUprightPixelsComeFrom) {
  // Of an upright picture of 10 × 20 pixels.
  const ImageRegion upright{1, 2, 3, 5};
  EXPECT_EQ(stored_region(upright, 10, 20, 1), upright);
  EXPECT_EQ(stored_region(upright, 10, 20, 2), (ImageRegion{1, 13, 3, 5}));
  EXPECT_EQ(stored_region(upright, 10, 20, 3), (ImageRegion{6, 13, 3, 5}));
  EXPECT_EQ(stored_region(upright, 10, 20, 4), (ImageRegion{6, 2, 3, 5}));
  EXPECT_EQ(stored_region(upright, 10, 20, 5), (ImageRegion{2, 1, 5, 3}));
  EXPECT_EQ(stored_region(upright, 10, 20, 6), (ImageRegion{13, 1, 5, 3}));
  EXPECT_EQ(stored_region(upright, 10, 20, 7), (ImageRegion{13, 6, 5, 3}));
  EXPECT_EQ(stored_region(upright, 10, 20, 8), (ImageRegion{2, 6, 5, 3}));
}

}  // namespace
}  // namespace millrace::orientation_test
