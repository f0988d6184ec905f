#include "millrace/formats/records/record_file.h"

#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/csv/reader.h"
#include "millrace/formats/fixed_length/reader.h"
#include "millrace/formats/text/line_splitter.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/memory_storage.h"
#include "tests/support/packed.h"
#include "tests/support/shard_driver.h"

namespace millrace::record_file_test {
namespace {

using Step = RecordFileReader::Step;
using MakeAnySplitter = std::function<std::unique_ptr<RecordSplitter>()>;

struct Read {
  std::vector<std::string> records;  // with offset, number and line
  std::vector<FilePlace> places;     // before each call that gave records
  std::vector<size_t> given_before;  // records before each of these
  std::string error;
};

Read read_file(Storage& storage, const MakeAnySplitter& make, const RecordFileOptions& options, size_t max_records) {
  Read read;
  BufferPool pool;
  test::WakeFlag flag;
  RecordFileReader reader(storage, pool, "file", make(), options, [&flag] { flag.wake(); });
  CutRecords records;
  while (true) {
    const FilePlace place = reader.place();
    switch (reader.next(records, max_records)) {
      case Step::kEnd: return read;
      case Step::kError:
        read.error = reader.error().to_string();
        EXPECT_EQ(reader.next(records), Step::kEnd);
        return read;
      case Step::kPending:
        if (flag.wait()) break;
        read.error = "nobody woke the reader";
        return read;
      case Step::kRecords:
        read.places.push_back(place);
        read.given_before.push_back(read.records.size());
        for (size_t i = 0; i < records.size(); ++i) {
          read.records.push_back(fmt::format("{} at {} number {} line {}", records.payloads[i], records.offsets[i],
                                             records.first_record + i, records.lines.empty() ? 0 : records.lines[i]));
        }
    }
  }
}

// From each place in the file, of each kind and compression, also out of a slow storage.
void expect_goes_on_everywhere(const std::string& content, const MakeAnySplitter& make) {
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
    test::MemoryStorage memory;
    memory.add("file", test::packed(content, compression));
    RecordFileOptions options{.compression = compression, .chunk_bytes = 64};
    const Read whole = read_file(memory, make, options, 3);
    ASSERT_GT(whole.places.size(), 10U);
    for (size_t i = 0; i < whole.places.size(); ++i) {
      test::InjectingStorage slow(memory, {.seed = i,
                                           .max_latency = std::chrono::microseconds(20),
                                           .max_read_bytes = 50,
                                           .retriable_error_rate = 0.05});
      options.start = whole.places[i];
      const Read rest = read_file(slow, make, options, 1000);
      const auto begin = whole.records.begin() + static_cast<std::ptrdiff_t>(whole.given_before[i]);
      EXPECT_EQ(rest.records, std::vector<std::string>(begin, whole.records.end())) << i;
      EXPECT_EQ(rest.error, whole.error) << i;
    }
  }
}

TEST(RecordFileReaderTest, GoesOnWithEveryLine) {
  std::string content;
  for (int i = 0; i < 60; ++i) content += fmt::format("line {}{}", i * i, i % 3 == 0 ? "\r\n" : "\n");
  expect_goes_on_everywhere(content, [] { return std::make_unique<LineSplitter>(); });
  // After the error at the end too.
  expect_goes_on_everywhere(content + "too long for a line\n", [] { return std::make_unique<LineSplitter>(10); });
}

TEST(RecordFileReaderTest, GoesOnWithEveryRecordOfOneLength) {
  const FixedLengthFormat format{.record_bytes = 7, .header_bytes = 30, .footer_bytes = 100};
  std::string content(30, 'h');
  for (int i = 0; i < 50; ++i) content += fmt::format("r{:06}", i * i);
  content += std::string(100, 'f');
  expect_goes_on_everywhere(content, [&] { return std::make_unique<FixedLengthSplitter>(format); });
}

TEST(RecordFileReaderTest, GoesOnWithEveryRecordOfCsvAndItsLine) {
  std::string content = "\"the\nheader\"\n";
  for (int i = 0; i < 50; ++i) content += fmt::format("{},\"a\r\nb\"\"{}\n\"{}", i, i * i, i % 3 == 0 ? "\r" : "\r\n");
  CsvFormat format;
  format.header = true;
  expect_goes_on_everywhere(content, [&] { return std::make_unique<CsvSplitter>(format); });
}

TEST(RecordFileReaderTest, GoesOnWithEveryRecordOfCsvAfterAByteOrderMark) {
  std::string content = "\xef\xbb\xbf\"the\nheader\"\n";
  for (int i = 0; i < 99; ++i) content += fmt::format("{},b\n", i);
  for (const bool header : {true, false}) {
    CsvFormat format;
    format.header = header;
    const auto make = [&] { return std::make_unique<CsvSplitter>(format); };
    expect_goes_on_everywhere(content, make);
    test::MemoryStorage memory;
    memory.add("file", content);
    const std::vector<std::string> whole = read_file(memory, make, {}, 1000).records;
    EXPECT_EQ(whole.size(), header ? 99 : 100);
    for (const size_t bytes : {1, 2, 3, 4, 5}) {
      test::InjectingStorage parts(memory, {.max_read_bytes = bytes});
      EXPECT_EQ(read_file(parts, make, {.chunk_bytes = bytes}, 1000).records, whole) << bytes;
    }
  }
}

TEST(RecordFileReaderTest, RefusesTextOfAnotherEncodingAsAWhole) {
  using std::string_literals::operator""s;
  const std::vector<std::pair<std::string, std::string>> encoded = {
      {"\xff\xfe"
       "1\0\n\0"
       "2\0"s,
       "UTF-16LE by its first bytes (ff fe)"},
      {"\xfe\xff\0"
       "1\0\n"s,
       "UTF-16BE by its first bytes (fe ff)"},
      {"\xff\xfe\0\0\n\0\0\0"s, "UTF-32LE by its first bytes (ff fe 00 00)"},
      {"\0\0\xfe\xff\0\0\0\n"s, "UTF-32BE by its first bytes (00 00 fe ff)"},
      {"\xff\xfe"s, "UTF-16LE by its first bytes (ff fe)"}};
  CsvFormat with_header;
  with_header.header = true;
  const std::vector<MakeAnySplitter> splitters = {[] { return std::make_unique<LineSplitter>(); },
                                                  [] { return std::make_unique<CsvSplitter>(CsvFormat()); },
                                                  [&] { return std::make_unique<CsvSplitter>(with_header); }};
  for (const auto& [content, message] : encoded) {
    for (const MakeAnySplitter& make : splitters) {
      for (const bool passes : {false, true}) {
        for (const size_t bytes : {1, 3, 64}) {
          test::MemoryStorage memory;
          memory.add("file", content);
          const Read read = read_file(memory, make, {.chunk_bytes = bytes, .passes_damage = passes}, 1000);
          EXPECT_TRUE(read.records.empty()) << content;
          EXPECT_THAT(read.error, ::testing::HasSubstr(message));
          EXPECT_THAT(read.error, ::testing::HasSubstr("offset 0"));
        }
      }
    }
  }
  // What only begins like one is data.
  for (const std::string& line : {"\xff"s, "\xff\xff"s, "\0\0\xfe"s, "\xef\xbb"s, "\xfe"s}) {
    for (const MakeAnySplitter& make : splitters) {
      test::MemoryStorage memory;
      memory.add("file", line + "\n" + line);
      const Read read = read_file(memory, make, {.chunk_bytes = 1}, 1000);
      EXPECT_THAT(read.records.back(), ::testing::StartsWith(line + " at "));
    }
  }
}

TEST(RecordFileReaderTest, LeavesTheMemoryOfRecordsThatWereCopied) {
  std::string content;
  std::vector<std::string> lines;
  for (int i = 0; i < 3000; ++i) {
    lines.push_back(fmt::format("line {}{}", i, std::string(i % 97 == 0 ? 1500 : i % 40, '.')));
    content += lines.back() + '\n';
  }
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    test::MemoryStorage memory;
    memory.add("file", test::packed(content, compression));
    BufferPool pool;
    RecordFileReader reader(memory, pool, "file", std::make_unique<LineSplitter>(),
                            {.compression = compression, .chunk_bytes = 16 << 10}, [] {});
    std::vector<std::string> read;
    CutRecords records;
    while (reader.next(records) == Step::kRecords) {
      for (const std::string_view line : records.payloads) read.emplace_back(line);
      records.clear();
      reader.leave_buffer();
      EXPECT_LT(pool.bytes_in_use(), 10'000) << "the part of a line";
    }
    EXPECT_EQ(read, lines);
  }
}

TEST(RecordFileReaderTest, APlaceBehindTheEndIsAnError) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    test::MemoryStorage memory;
    memory.add("file", test::packed("a\nb\n", compression));
    const RecordFileOptions options{.compression = compression, .start = {.offset = 100, .record = 9}};
    const Read read = read_file(
        memory, [] { return std::make_unique<LineSplitter>(); }, options, 9);
    EXPECT_THAT(read.error, testing::HasSubstr("state: the file has only 4 bytes"));
  }
}

}  // namespace
}  // namespace millrace::record_file_test
