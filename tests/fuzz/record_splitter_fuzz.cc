#include "tests/fuzz/record_splitter_fuzz.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/csv/fields.h"
#include "millrace/formats/csv/reader.h"
#include "millrace/formats/fixed_length/reader.h"
#include "millrace/formats/records/record_splitter.h"
#include "millrace/formats/text/line_splitter.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

struct Walk {
  std::vector<std::string> records;
  std::vector<FilePlace> places;  // before each record
  std::string error;
  FilePlace end;
};

std::string to_string(const FilePlace& place) {
  return fmt::format(" [{},{},{}]", place.offset, place.record, place.line);
}

// All records from `start` on, from pieces of at most `most` bytes, up to the first error or, when it `passes` them, to
// the end.
Walk walk(RecordSplitter& splitter, std::string_view bytes, const FilePlace& start, size_t most, size_t max_records,
          bool passes) {
  Walk walk;
  FilePlace place = start;
  size_t come = place.offset;
  CutRecords out;
  while (true) {
    const bool last = come == bytes.size();
    // A copy: splitters may write to what they are given, and only what is left is seen again.
    std::string at_hand(bytes.substr(place.offset, come - place.offset));
    const FilePlace before = place;
    out.clear();
    const std::optional<Error> error = splitter.cut(at_hand, last, max_records, place, out);
    for (size_t i = 0; i < out.size(); ++i) {
      walk.records.emplace_back(out.payloads[i]);
      walk.places.push_back({out.offsets[i], before.record + i, out.lines.empty() ? 0 : out.lines[i]});
    }
    require(place.offset >= before.offset && place.offset <= come && place.record == before.record + out.size());
    if (!out.empty()) continue;
    if (error && passes) {
      walk.error += error->to_string() + to_string(place);
      while (true) {
        const bool all = come == bytes.size();
        const uint64_t from = place.offset;
        const bool found = splitter.pass(bytes.substr(from, come - from), all, place);
        require(place.offset >= from && place.offset <= come && (found || !all));
        if (found) break;
        come += std::min(most, bytes.size() - come);
      }
      walk.error += to_string(place);
      continue;
    }
    if (error || last) {
      walk.error += error ? error->to_string() : "";
      walk.end = place;
      return walk;
    }
    come += std::min(most, bytes.size() - come);
  }
}

// Lets splitters of one kind walk over any bytes, which come in pieces of several sizes: the same records and the same
// error come out, and going on from any place gives the rest.
void check_splitter(const std::function<std::unique_ptr<RecordSplitter>()>& make, std::string_view bytes) {
  for (const bool passes : {false, true}) {
    const Walk whole = walk(*make(), bytes, {}, bytes.size() + 1, SIZE_MAX, passes);
    for (const size_t most : {size_t{1}, size_t{7}, size_t{64}}) {
      const Walk pieces = walk(*make(), bytes, {}, most, 3, passes);
      require(pieces.records == whole.records && pieces.places == whole.places && pieces.error == whole.error);
      require(pieces.end.record == whole.end.record && pieces.end.line == whole.end.line);
    }
    if (whole.records.empty()) continue;
    const size_t middle = whole.records.size() / 2;
    const Walk rest = walk(*make(), bytes, whole.places[middle], 16, SIZE_MAX, passes);
    require(rest.records ==
            std::vector<std::string>(whole.records.begin() + static_cast<std::ptrdiff_t>(middle), whole.records.end()));
    // Errors in front of the middle are after it.
    require(whole.error.ends_with(rest.error) && (passes || rest.error == whole.error));
  }
}

}  // namespace

void fuzz_line_splitter(std::string_view bytes) {
  for (const uint64_t most : {uint64_t{5}, uint64_t{1000}}) {
    check_splitter([most] { return std::make_unique<LineSplitter>(most); }, bytes);
  }
}

void fuzz_fixed_length_splitter(std::string_view bytes) {
  for (const FixedLengthFormat& format : {FixedLengthFormat{.record_bytes = 1},
                                          FixedLengthFormat{.record_bytes = 5, .header_bytes = 3, .footer_bytes = 7}}) {
    check_splitter([&format] { return std::make_unique<FixedLengthSplitter>(format); }, bytes);
  }
}

void fuzz_csv(std::string_view bytes) {
  CsvFormat with_header;
  with_header.header = true;
  CsvFormat plain;
  plain.quotes = false;
  for (const CsvFormat& format : {CsvFormat(), with_header, plain}) {
    for (const uint64_t most : {uint64_t{9}, uint64_t{1000}}) {
      for (const bool refuses : {false, true}) {
        check_splitter([&] { return std::make_unique<CsvSplitter>(format, most, refuses); }, bytes);
      }
    }
  }
  std::vector<CsvField> fields;
  try {
    split_csv(bytes, CsvFormat(), SIZE_MAX, fields);
    for (const CsvField& field : fields) {
      require(field.text.data() >= bytes.data());
      require(field.text.data() + field.text.size() <= bytes.data() + bytes.size());
      (void)field.unquoted();
    }
  } catch (const ErrorException& e) {
    require(e.error().code == ErrorCode::kParse);
  }
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kFloat32}) (void)parse_csv_number(bytes, dtype);
}

}  // namespace millrace::test
