// Writes the indexes of shards; see dataset_index --help.
#include <array>
#include <iostream>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/command_line/command_line.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "tools/each_shard.h"
#include "tools/shard_arguments.h"
#include "tools/text_table.h"

namespace {

using namespace millrace;

constexpr const char* kAbout =
    "Writes the index of each shard beside it, as SHARD.index: where every record begins and, for compressed shards, "
    "places\n"
    "to begin unpacking. Reading can then start at any record, and damage costs a record or a mebibyte and not the "
    "rest\n"
    "of the shard. An index that fits its shard is left as it is. A damaged shard gets none, and the exit code is 1.\n"
    "Of more than 100 shards the table has only those that could not be indexed; --json has all.";

struct Indexed {
  enum class Outcome { kWritten, kUpToDate, kFailed };
  Outcome outcome = Outcome::kFailed;
  std::string problem;  // why it failed
  uint64_t records = 0;
  uint64_t shard_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t seek_points = 0;
  std::string compression = "-";
};

void describe(const ShardIndex& index, Indexed& result) {
  result.records = index.num_records();
  result.shard_bytes = index.fingerprint().bytes;
  result.index_bytes = index.serialize().size();
  result.seek_points = index.points().size();
  result.compression = to_string(index.compression());
}

// The index that is there, if it fits; whatever is wrong with it, a new one is made.
std::shared_ptr<const ShardIndex> index_that_fits(Storage& storage, const std::string& path) {
  try {
    return load_shard_index(storage, path);
  } catch (const ErrorException&) {
    return nullptr;
  }
}

Indexed index_shard(Storage& storage, const std::string& path, const ShardProgramArguments& arguments, bool force,
                    const std::function<void(uint64_t)>& on_progress) {
  Indexed result;
  try {
    if (!force) {
      const auto there = index_that_fits(storage, path);
      if (there && arguments.compression.value_or(there->compression()) == there->compression()) {
        describe(*there, result);
        result.outcome = Indexed::Outcome::kUpToDate;
        on_progress(result.shard_bytes);
        return result;
      }
    }
    const ShardIndex index = build_shard_index(storage, path,
                                               {.compression = arguments.compression,
                                                .max_record_bytes = arguments.max_record_bytes,
                                                .on_progress = on_progress});
    write_anywhere(index_path(path), index.serialize());
    describe(index, result);
    result.outcome = Indexed::Outcome::kWritten;
  } catch (...) {
    Error error = current_exception_as_error();
    if (error.shard.empty()) error.shard = path;
    result.problem = error.to_string();
  }
  return result;
}

std::string_view to_string(Indexed::Outcome outcome) {
  switch (outcome) {
    case Indexed::Outcome::kWritten: return "written";
    case Indexed::Outcome::kUpToDate: return "up to date";
    case Indexed::Outcome::kFailed: break;
  }
  return "failed";
}

int run(int argc, char** argv) {
  boost::program_options::options_description more;
  more.add_options()("force", "write all indexes anew, also those that fit");
  bool force = false;
  const auto arguments =
      parse_shard_arguments(argc, argv, {.name = "dataset_index", .about = kAbout}, more, {{"force", &force}});
  if (!arguments) return 0;
  for (const std::string& path : arguments->paths) {
    if (!RemoteStorage::opens(path) || is_in_bucket(path)) continue;
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' is at a URL; indexes are written beside local shards, and in buckets", path));
  }
  std::vector<Indexed> results(arguments->paths.size());
  InlineExecutor executor;
  RoutedStorage storage(executor);
  for_each_shard(arguments->paths, arguments->threads, "indexing", [&](size_t shard, const auto& on_progress) {
    results[shard] = index_shard(storage, arguments->paths[shard], *arguments, force, on_progress);
  });

  TextTable table({"shard", "records", "bytes", "stored", "seek points", "index bytes", "index"});
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  Indexed total;
  std::array<uint64_t, 3> outcomes{};
  for (size_t i = 0; i < results.size(); ++i) {
    const Indexed& result = results[i];
    const bool failed = result.outcome == Indexed::Outcome::kFailed;
    ++outcomes[static_cast<size_t>(result.outcome)];
    total.records += result.records;
    total.shard_bytes += result.shard_bytes;
    total.index_bytes += result.index_bytes;
    if (results.size() <= kMostListed || failed) {
      table.add({arguments->paths[i], with_commas(result.records), with_commas(result.shard_bytes), result.compression,
                 with_commas(result.seek_points), with_commas(result.index_bytes),
                 std::string(to_string(result.outcome))});
    }
    nlohmann::ordered_json one;
    put_name(one, "shard", arguments->paths[i]);
    one["index"] = to_string(result.outcome);
    if (failed) {
      std::cerr << "dataset_index: " << result.problem << "\n";
      one["error"] = result.problem;
    } else {
      one["records"] = result.records;
      one["bytes"] = result.shard_bytes;
      one["compression"] = result.compression;
      one["seek_points"] = result.seek_points;
      one["index_bytes"] = result.index_bytes;
    }
    list.push_back(std::move(one));
  }
  const auto [written, up_to_date, failed] = outcomes;
  if (arguments->json) {
    const nlohmann::ordered_json json = {{"written", written},         {"up_to_date", up_to_date},
                                         {"failed", failed},           {"records", total.records},
                                         {"bytes", total.shard_bytes}, {"index_bytes", total.index_bytes},
                                         {"shards", std::move(list)}};
    std::cout << json_line(json) << "\n";
  } else {
    std::cout << table.text()
              << fmt::format("{}: {} written, {} up to date, {} failed; {}, {} of indexes\n",
                             counted(results.size(), "shard"), written, up_to_date, failed,
                             counted(total.records, "record"), counted(total.index_bytes, "byte"));
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("dataset_index", [&] { return run(argc, argv); });
}
