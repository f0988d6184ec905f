// What a data set takes on the disk and costs to read in each form of storage: plain, gzip, zstd with frames of several
// sizes. The same records are written in every form; what is timed was first compared with them, record by record.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/random/keyed_permutation.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/shard_reader.h"
#include "millrace/formats/tfrecord/writer.h"

namespace millrace {
namespace {

namespace po = boost::program_options;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string shards;
  std::string folder;
  int64_t repetitions = 5;
  int64_t resumes = 50;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("shards", po::value(&options.shards), "glob of TFRecord files whose records are written again")
      ("folder", po::value(&options.folder), "where; what it holds of an earlier run is replaced")
      ("repetitions", whole_number(options.repetitions, {1, limits::kFew}),
       "how often each form is read, in turn; the fastest counts")
      ("resumes", whole_number(options.resumes, {1, limits::kFew}),
       "places in the middle of a shard where reading begins");
  // clang-format on
  const auto given = parse_command_line(argc, argv,
                                        {.name = "shard_storage_bench",
                                         .about = "Writes a data set plain, as gzip and as zstd, and measures each: "
                                                  "bytes, one thread's speed, going on in the middle.",
                                         .usage = "--shards GLOB --folder FOLDER [options]"},
                                        visible);
  if (!given) return std::nullopt;
  if (options.shards.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "--shards is missing");
  if (options.folder.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "--folder is missing");
  return options;
}

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Form {
  std::string name;
  RecordWriterOptions options;
  double write_seconds = 0;
  double read_seconds = 0;
  uint64_t file_bytes = 0;
  double resume_microseconds = 0;  // mean
  double resume_bytes = 0;         // of the file that are read for it, mean
};

/// All records of one set of files, one after the other. The files lie in the page cache: nothing is ever pending.
class Reading {
 public:
  template <typename OnBatch>
  void read(const std::vector<std::string>& paths, const OnBatch& on_batch) {
    for (const std::string& path : paths) {
      ShardReader reader(storage_, pool_, path, {}, [] {});
      for (bool ended = false; !ended;) {
        switch (reader.next(batch_, 1024)) {
          case ShardReader::Step::kRecords: on_batch(batch_); break;
          case ShardReader::Step::kEnd: ended = true; break;
          case ShardReader::Step::kError: throw ErrorException(reader.fault().error);
          case ShardReader::Step::kPending: fail("a local file was not there at once");
        }
      }
    }
  }

  // Begins at one record of a shard that is known to be stored so: the record, and the bytes read for it.
  std::pair<std::string, uint64_t> begin_at(const std::string& path, Compression compression, RecordPosition place) {
    ShardReader reader(storage_, pool_, path, {.compression = compression, .start = place}, [] {});
    if (reader.next(batch_, 1) != ShardReader::Step::kRecords) fail("no record in the middle of " + path);
    return {std::string(batch_.payloads[0]), reader.num_file_bytes_read()};
  }

 private:
  InlineExecutor executor_;
  LocalStorage storage_{executor_};
  BufferPool pool_;
  RecordBatch batch_;
};

struct Place {
  size_t shard;
  RecordPosition position;
  std::string payload;
};

int measure(const Options& options) {
  const Shards given = Shards::glob(options.shards);
  std::vector<std::string> source;
  for (const Shard& shard : given.list()) source.push_back(shard.path);
  const auto zstd = [](int level, size_t frame_bytes) {
    return RecordWriterOptions{.compression = Compression::kZstd, .level = level, .frame_bytes = frame_bytes};
  };
  std::vector<Form> forms{{"plain", {}},
                          {"gzip 6", {.compression = Compression::kGzip}},
                          {"zstd 3, 64 KiB", zstd(3, 64 << 10)},
                          {"zstd 3, 256 KiB", zstd(3, 256 << 10)},
                          {"zstd 3, 1 MiB", zstd(3, 1 << 20)},
                          {"zstd 9, 256 KiB", zstd(9, 256 << 10)},
                          {"zstd 19, 256 KiB", zstd(19, 256 << 10)}};
  Reading reading;
  std::filesystem::create_directories(options.folder);
  uint64_t num_records = 0;
  uint64_t num_bytes = 0;
  std::vector<Place> all;  // some places, those that are not the first of their shard
  for (size_t shard = 0; shard < source.size(); ++shard) {
    reading.read({source[shard]}, [&](const RecordBatch& batch) {
      num_records += batch.size();
      for (const std::string_view payload : batch.payloads) num_bytes += payload.size() + 16;
      const size_t middle = batch.size() / 2;
      if (batch.first_record + middle == 0) return;
      all.push_back({shard, {batch.offsets[middle], batch.first_record + middle}, std::string(batch.payloads[middle])});
    });
  }
  if (all.empty()) fail("the shards have too few records");
  const KeyedPermutation order(all.size(), 1);
  std::vector<Place> places;
  for (uint64_t i = 0; i < std::min<uint64_t>(all.size(), static_cast<uint64_t>(options.resumes)); ++i) {
    places.push_back(all[order(i)]);
  }

  const auto path_of = [&](size_t form, size_t shard) {
    return fmt::format("{}/form-{}-{}.tfrecord", options.folder, form, shard);
  };
  std::vector<std::vector<std::string>> paths(forms.size());
  for (size_t i = 0; i < forms.size(); ++i) {
    Form& form = forms[i];
    for (size_t shard = 0; shard < source.size(); ++shard) {
      paths[i].push_back(path_of(i, shard));
      std::vector<std::string> records;
      reading.read({source[shard]}, [&](const RecordBatch& batch) {
        for (const std::string_view payload : batch.payloads) records.emplace_back(payload);
      });
      const auto begin = Clock::now();
      RecordWriter writer(paths[i].back(), form.options);
      for (const std::string& record : records) writer.write(record);
      writer.close();
      form.write_seconds += seconds_since(begin);
      form.file_bytes += std::filesystem::file_size(paths[i].back());
      size_t next = 0;
      reading.read({paths[i].back()}, [&](const RecordBatch& batch) {
        for (const std::string_view payload : batch.payloads) {
          if (next == records.size() || payload != records[next++]) fail(form.name + " gives other records");
        }
      });
      if (next != records.size()) fail(form.name + " gives fewer records");
    }
    form.read_seconds = std::numeric_limits<double>::infinity();
  }
  for (int64_t repetition = 0; repetition < options.repetitions; ++repetition) {
    for (size_t i = 0; i < forms.size(); ++i) {
      uint64_t found = 0;
      const auto begin = Clock::now();
      reading.read(paths[i], [&](const RecordBatch& batch) { found += batch.size(); });
      forms[i].read_seconds = std::min(forms[i].read_seconds, seconds_since(begin));
      if (found != num_records) fail(forms[i].name + " gives another number of records");
    }
  }
  for (size_t i = 0; i < forms.size(); ++i) {
    uint64_t bytes = 0;
    const auto begin = Clock::now();
    for (const Place& place : places) {
      const auto [payload, read] =
          reading.begin_at(paths[i][place.shard], forms[i].options.compression, place.position);
      if (payload != place.payload) fail(forms[i].name + " gives another record in the middle");
      bytes += read;
    }
    const auto count = static_cast<double>(places.size());
    forms[i].resume_microseconds = seconds_since(begin) / count * 1e6;
    forms[i].resume_bytes = static_cast<double>(bytes) / count;
  }

  const auto megabytes = static_cast<double>(num_bytes) * 1e-6;
  fmt::print("{} shards, {} records, {:.1f} MB; one thread, from the page cache; going on: mean of {} places\n",
             source.size(), num_records, megabytes, places.size());
  fmt::print("{:<18} {:>9} {:>7} {:>11} {:>10} {:>15} {:>14}\n", "", "MB", "share", "write MB/s", "read MB/s",
             "going on, ms", "and KB read");
  for (const Form& form : forms) {
    fmt::print("{:<18} {:>9.1f} {:>6.1f}% {:>11.0f} {:>10.0f} {:>15.2f} {:>14.0f}\n", form.name,
               static_cast<double>(form.file_bytes) * 1e-6,
               100 * static_cast<double>(form.file_bytes) / static_cast<double>(num_bytes),
               megabytes / form.write_seconds, megabytes / form.read_seconds, form.resume_microseconds * 1e-3,
               form.resume_bytes * 1e-3);
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_program("shard_storage_bench", [&] {
    const auto options = millrace::parse(argc, argv);
    return options ? millrace::measure(*options) : 0;
  });
}
