#include "millrace/formats/utf8.h"

#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/records/skipped_region.h"

namespace millrace::utf8_test {
namespace {

TEST(Printable, IsOneLineThatATerminalTakes) {
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(printable("data/train-0.tfrecord"), "data/train-0.tfrecord");
  EXPECT_EQ(printable("Mühle 水車 \U0001f3ad"), "Mühle 水車 \U0001f3ad");
  EXPECT_EQ(printable("a\x1b[31mb\nc\td\re\x7f"), "a\\x1b[31mb\\nc\\td\\re\\x7f");
  EXPECT_EQ(printable("\xff\xfe|\xc3|\xc3\xa9"), "\\xff\\xfe|\\xc3|\xc3\xa9");
  EXPECT_EQ(printable("\0"sv), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\xa0"),
            "\\xc2\\x9b31m\xc2\xa0");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82") << "a character that is cut";
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, NamesInErrorsAndReportsAreSo) {
  const std::string name = "a\n\x1b]0;title\x07\xff";
  EXPECT_EQ((Error{.code = ErrorCode::kIo, .message = "cannot open", .shard = name}.to_string()),
            "io: cannot open (file a\\n\\x1b]0;title\\x07\\xff)");
  SkippedRegion region;
  region.shard = name;
  EXPECT_TRUE(region.to_string().starts_with("a\\n\\x1b]0;title\\x07\\xff, "));
}

TEST(Excerpt, CutsLongTextsBetweenCharacters) {
  EXPECT_EQ(excerpt("BPE"), "BPE");
  EXPECT_EQ(excerpt("aé水b", 4), "aé水b");
  EXPECT_EQ(excerpt("aé水b", 3), "aé水...");
  EXPECT_EQ(excerpt("aé水b", 2), "aé...");
  EXPECT_EQ(excerpt(std::string(1000, 'x')).size(), 63U);
  EXPECT_EQ(excerpt(std::string(1000, '\x80'), 5).size(), 23U) << "bytes that begin no character";
}

}  // namespace
}  // namespace millrace::utf8_test
