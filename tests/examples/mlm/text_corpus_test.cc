#include "examples/mlm/text_corpus.h"

#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "tests/examples/mlm/preparation_text.h"

namespace millrace::text_corpus_test {
namespace {

using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class TextCorpusFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path(name), std::ios::binary) << bytes;
    return folder_.path(name);
  }
  std::string write_gzip(const std::string& name, const std::string& bytes) {
    const gzFile file = gzopen(folder_.path(name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return folder_.path(name);
  }
  static std::vector<std::string> lines_of(TextCorpus& corpus) {
    std::vector<std::string> lines;
    for (std::string line; corpus.next(line);) lines.push_back(line);
    return lines;
  }
  std::vector<std::string> lines_of(const std::string& bytes, InvalidUtf8 invalid_utf8 = InvalidUtf8::kRefuse) {
    TextCorpus corpus({.files = {write("text", bytes)}, .invalid_utf8 = invalid_utf8});
    return lines_of(corpus);
  }

  TemporaryFolder folder_;
};

TEST_F(TextCorpusFiles, GivesEveryLineAsItStands) {
  EXPECT_THAT(lines_of("one\n\n  two  spaces \t\n\nend\n"), ElementsAre("one", "", "  two  spaces \t", "", "end"));
  EXPECT_THAT(lines_of("no end"), ElementsAre("no end"));
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
  EXPECT_THAT(lines_of(""), ElementsAre());
}

TEST_F(TextCorpusFiles, LeavesOutLineEndsOfBothKindsAndTheByteOrderMark) {
  EXPECT_THAT(lines_of("\xef\xbb\xbfone\r\ntwo\rthree\r\n\r\n"), ElementsAre("one", "two\rthree", ""));
  EXPECT_THAT(lines_of("one\n\xef\xbb\xbftwo"), ElementsAre("one", "\ufefftwo"));
}

TEST_F(TextCorpusFiles, ReadsFilesOneAfterTheOtherAndLinesNeverCrossThem) {
  TextCorpus corpus(
      {.files = {write("a", "one\ntwo"), write("empty", ""), write_gzip("c", "three\n"), write("d", "\n")}});
  EXPECT_THAT(lines_of(corpus), ElementsAre("one", "two", "three", ""));
  const CorpusReport expected = {.files = 4, .source_bytes = 14, .source_lines = 4, .lines = 4, .bytes = 11};
  EXPECT_EQ(corpus.report(), expected);
  EXPECT_EQ(corpus.fraction_read(), 1.0);
}

TEST_F(TextCorpusFiles, GivesEachTextOfAListOfPackagesOnce) {
  const std::string end = " A kettle boils\n water.\n\n";
  const std::string path = write("packages", "Package: a\nSource: a\nSection: b\nDescription: boils\n" + end +
                                                 "Package: c\nSource: c\nSection: b\nDescription: boils more\n" + end);
  TextCorpus corpus({.packages = path});
  EXPECT_THAT(lines_of(corpus), ElementsAre("boils", "A kettle boils water.", "boils more"));
  EXPECT_EQ(corpus.report().repeated_texts, 1);
  EXPECT_THAT(to_text(corpus.report()), HasSubstr("1 that had come before left out"));
  EXPECT_THAT([&] { TextCorpus({.files = {path}, .packages = path}); },
              ThrowsMessage<ErrorException>(HasSubstr("--text and --packages are two texts")));
}

TEST_F(TextCorpusFiles, GivesLinesLongerThanItsChunksWhole) {
  const std::string longest(1'000'000, 'x');
  const std::string text = "short\n" + longest + "\r\n" + longest + "y";
  EXPECT_THAT(lines_of(text), ElementsAre("short", longest, longest + "y"));
  TextCorpus unpacked({.files = {write_gzip("gz", text)}});
  EXPECT_THAT(lines_of(unpacked), ElementsAre("short", longest, longest + "y"));
}

TEST_F(TextCorpusFiles, RefusesBytesThatAreNotUtf8WithFileAndOffset) {
  const auto refusal = [&](const std::string& bytes) -> std::string {
    try {
      (void)lines_of(bytes);
      return "";
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kParse);
      return error.error().message;
    }
  };
  const std::string file = folder_.path("text");
  EXPECT_EQ(refusal("one\ntwo \xff\n"),
            file + ": not UTF-8 at byte 8 (0xff); --invalid-utf8=replace puts U+FFFD there");
  EXPECT_THAT(refusal("one\xe2\x82\ntwo"), HasSubstr("byte 3 (0xe2)"));
  EXPECT_THAT(refusal("\xef\xbb\xbfone \xc0\x80"), HasSubstr("byte 7 (0xc0)"));
  EXPECT_THAT(refusal(std::string(300'000, 'x') + "\n\x80"), HasSubstr("byte 300001 (0x80)"));
}

TEST_F(TextCorpusFiles, DeliversTheLinesBeforeAnInvalidOne) {
  TextCorpus corpus({.files = {write("text", "one\n\xff\nthree\n")}});
  std::string line;
  EXPECT_TRUE(corpus.next(line));
  EXPECT_EQ(line, "one");
  EXPECT_THROW((void)corpus.next(line), ErrorException);
}

TEST_F(TextCorpusFiles, ReplacesWhatIsNotUtf8AsPythonDoes) {
  const auto replaced = [&](const std::string& bytes) { return lines_of(bytes, InvalidUtf8::kReplace).at(0); };
  // Python: bytes.decode("utf-8", "replace").
  EXPECT_EQ(replaced("a\xff"
                     "b"),
            "a\ufffdb");
  EXPECT_EQ(replaced("\xe2\x82"), "\ufffd");
  EXPECT_EQ(replaced("\xe2\x82 \xe2x"), "\ufffd \ufffdx");
  EXPECT_EQ(replaced("\xc0\x80"), "\ufffd\ufffd");
  EXPECT_EQ(replaced("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(replaced("\xf0\x9f\x8c"), "\ufffd");
  EXPECT_EQ(replaced("\xf0\x80\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(replaced("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(replaced("\xe0\x9f\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(replaced("\xf5\xe9t\xe9"), "\ufffd\ufffdt\ufffd");
  EXPECT_EQ(replaced("日\xe6\x97本"), "日\ufffd本");
}

TEST_F(TextCorpusFiles, RefusesAnotherEncodingAlsoWhereItWouldReplace) {
  const std::string text(
      "\xff\xfe"
      "a\0\n\0",
      6);
  for (const InvalidUtf8 invalid : {InvalidUtf8::kRefuse, InvalidUtf8::kReplace}) {
    EXPECT_THAT([&] { (void)lines_of(text, invalid); },
                ThrowsMessage<ErrorException>(HasSubstr("text: the text is UTF-16LE by its first bytes (ff fe)")));
  }
}

TEST_F(TextCorpusFiles, CountsWhatItReplaced) {
  TextCorpus corpus({.files = {write("text", "a\xff\n\xfe\xfe\nfine\n")}, .invalid_utf8 = InvalidUtf8::kReplace});
  (void)lines_of(corpus);
  EXPECT_EQ(corpus.report().replaced_sequences, 3);
  EXPECT_THAT(to_text(corpus.report()),
              HasSubstr("3 lines with 14 bytes of text from 1 file, 3 sequences that are not"));
}

TEST_F(TextCorpusFiles, MissesAFileBeforeItReadsTheFirst) {
  EXPECT_THAT(
      [&] {
        TextCorpus({.files = {write("a", "one\n"), folder_.path("none")}});
      },
      ThrowsMessage<ErrorException>("io: cannot open '" + folder_.path("none") + "': No such file or directory"));
  EXPECT_THAT([&] { TextCorpus({.files = {folder_.path()}}); },
              ThrowsMessage<ErrorException>("io: cannot read '" + folder_.path() + "': Is a directory"));
}

TEST_F(TextCorpusFiles, NamesAGzipFileThatIsDamaged) {
  const std::string path = write_gzip("text.gz", std::string(100'000, 'x') + "\n");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  TextCorpus corpus({.files = {path}});
  EXPECT_THAT([&] { (void)lines_of(corpus); }, ThrowsMessage<ErrorException>(HasSubstr("truncated: " + path + ": ")));
}

TEST(DefaultCorpus, IsCleaned) {
  if (!std::filesystem::exists(kDefaultCorpus)) GTEST_SKIP() << "dict-gcide is not installed";
  TextCorpus corpus({});
  int64_t count = 0;
  int64_t bytes = 0;
  for (std::string line; corpus.next(line);) {
    ++count;
    bytes += static_cast<int64_t>(line.size());
    ASSERT_FALSE(line.empty());
    ASSERT_TRUE(is_valid_utf8(line));
    ASSERT_EQ(line.find("  "), std::string::npos) << line;
    ASSERT_EQ(line.find_first_of("\t\r\n"), std::string::npos) << line;
    ASSERT_TRUE(line.front() != ' ' && line.back() != ' ') << line;
    if (count == 3) {
      EXPECT_THAT(line, ::testing::StartsWith("00-database-long The Collaborative International Dictionary of English, "
                                              "derived from Webster's Revised Unabridged Dictionary, 1913, C. & G."));
    }
  }
  const CorpusReport& report = corpus.report();
  EXPECT_EQ(report.lines, count);
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_GT(report.bytes, 30'000'000);
  EXPECT_EQ(report.replaced_sequences, 3);
  // Every line that is not blank begins a paragraph or was joined to one.
  EXPECT_GT(report.joined_lines, 500'000);
  // What came in went out, but for line ends and spaces: joined lines have a space in place of their end, a paragraph's
  // last line has none, and three bytes became three times three.
  EXPECT_EQ(report.source_bytes,
            report.bytes + report.collapsed_spaces + (report.source_lines - 1 - report.joined_lines) - 3 * (3 - 1));
}

}  // namespace
}  // namespace millrace::text_corpus_test
