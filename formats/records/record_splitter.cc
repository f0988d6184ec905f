#include "millrace/formats/records/record_splitter.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace millrace {
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
    if (place.offset < before.offset || place.offset > come || place.record != before.record + out.size()) {
      __builtin_trap();
    }
    if (!out.empty()) continue;
    if (error && passes) {
      walk.error += error->to_string() + to_string(place);
      while (true) {
        const bool all = come == bytes.size();
        const uint64_t from = place.offset;
        const bool found = splitter.pass(bytes.substr(from, come - from), all, place);
        if (place.offset < from || place.offset > come || (all && !found)) __builtin_trap();
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

}  // namespace

void fuzz_record_splitter(const std::function<std::unique_ptr<RecordSplitter>()>& make, std::string_view bytes) {
  const auto expect = [](bool condition) {
    if (!condition) __builtin_trap();
  };
  for (const bool passes : {false, true}) {
    const Walk whole = walk(*make(), bytes, {}, bytes.size() + 1, SIZE_MAX, passes);
    for (const size_t most : {size_t{1}, size_t{7}, size_t{64}}) {
      const Walk pieces = walk(*make(), bytes, {}, most, 3, passes);
      expect(pieces.records == whole.records && pieces.places == whole.places && pieces.error == whole.error);
      expect(pieces.end.record == whole.end.record && pieces.end.line == whole.end.line);
    }
    if (whole.records.empty()) continue;
    const size_t middle = whole.records.size() / 2;
    const Walk rest = walk(*make(), bytes, whole.places[middle], 16, SIZE_MAX, passes);
    expect(rest.records ==
           std::vector<std::string>(whole.records.begin() + static_cast<std::ptrdiff_t>(middle), whole.records.end()));
    // Errors in front of the middle are after it.
    expect(whole.error.ends_with(rest.error) && (passes || rest.error == whole.error));
  }
}

}  // namespace millrace
