// Checks the shards of a data set; see dataset_verify --help.
#include <iostream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/command_line/command_line.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "tools/each_shard.h"
#include "tools/shard_arguments.h"
#include "tools/shard_verification.h"
#include "tools/text_table.h"

namespace {

using namespace millrace;
using nlohmann::ordered_json;

constexpr const char* kAbout =
    "Reads every byte of the shards and checks both CRCs of every record, the checksums of gzip, zlib and zstd, and "
    "each "
    "record\n"
    "against the shard's index where it has one (see dataset_index). Lists every damaged region with what is lost to\n"
    "it; with an index also how many records, and it goes on after damage. Of more than 100 shards the table has only\n"
    "those that something is wrong with; --json has all. The exit code is 1 when anything is wrong.";

struct Totals {
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t file_bytes = 0;
  uint64_t damaged_shards = 0;
  uint64_t places = 0;
  uint64_t index_problems = 0;
};

struct Loss {
  uint64_t bytes = 0;
  uint64_t records = 0;
  bool bytes_known = true;
  bool records_known = true;
};

Loss loss_of(const std::vector<RecordFault>& damage) {
  Loss loss;
  for (const RecordFault& fault : damage) {
    loss.bytes += fault.end - fault.begin;
    loss.bytes_known &= fault.end_is_known;
    loss.records += fault.num_records_lost.value_or(0);
    loss.records_known &= fault.num_records_lost.has_value() || (fault.begin == fault.end && fault.end_is_known);
  }
  return loss;
}

std::string to_text(const Loss& loss) {
  if (loss.bytes == 0 && loss.bytes_known && loss.records == 0 && loss.records_known) return "nothing lost";
  const std::string bytes =
      loss.bytes_known ? counted(loss.bytes, "byte") : fmt::format("at least {}", counted(loss.bytes, "byte"));
  if (!loss.records_known) return fmt::format("{} lost, records not known", bytes);
  return fmt::format("{}, {} lost", counted(loss.records, "record"), bytes);
}

std::string damage_cell(const ShardVerification& found) {
  if (found.damage.empty()) return "none";
  return fmt::format("{}: {}", counted(found.damage.size(), "place"), to_text(loss_of(found.damage)));
}

std::string index_cell(const ShardVerification& found) {
  if (!found.has_index) return "-";
  return found.index_problem ? "differs" : "fits";
}

std::string compression_cell(const ShardVerification& found) {
  return found.compression ? std::string(to_string(*found.compression)) : "-";
}

ordered_json to_json(const ShardVerification& found) {
  ordered_json damage = ordered_json::array();
  for (const RecordFault& fault : found.damage) {
    ordered_json one = {{"code", to_string(fault.error.code)},
                        {"message", fault.error.message},
                        {"record", fault.error.record},
                        {"begin", fault.begin},
                        {"end", fault.end},
                        {"end_is_known", fault.end_is_known},
                        {"records_lost", nullptr}};
    if (fault.num_records_lost) one["records_lost"] = *fault.num_records_lost;
    damage.push_back(std::move(one));
  }
  ordered_json json;
  put_name(json, "shard", found.path);
  json["records"] = found.records;
  json["bytes"] = found.bytes;
  json["file_bytes"] = found.file_bytes;
  json["compression"] = nullptr;
  json["index"] = !found.has_index ? "none" : found.index_problem ? "differs" : "fits";
  json["index_problem"] = nullptr;
  json["damage"] = std::move(damage);
  if (found.compression) json["compression"] = to_string(*found.compression);
  if (found.index_problem) json["index_problem"] = found.index_problem->message;
  return json;
}

int run(int argc, char** argv) {
  std::string counts_from;
  bool no_index = false;
  boost::program_options::options_description more;
  // clang-format off
  more.add_options()
      ("counts-from", boost::program_options::value(&counts_from),
       "file names say how many records there are, such as 'dataset-{index}-{count}.tfrecord'; another number is an error")
      ("no-index", "leave the indexes aside");
  // clang-format on
  const auto arguments =
      parse_shard_arguments(argc, argv, {.name = "dataset_verify", .about = kAbout}, more, {{"no-index", &no_index}});
  if (!arguments) return 0;
  Shards shards = Shards::files(arguments->paths);
  if (!counts_from.empty()) shards = shards.counts_from(counts_from);
  std::vector<ShardVerification> results(shards.size());
  InlineExecutor executor;
  RoutedStorage storage(executor);
  for_each_shard(arguments->paths, arguments->threads, "reading", [&](size_t shard, const auto& on_progress) {
    results[shard] = verify_shard(storage, shards.path(shard),
                                  {.compression = arguments->compression,
                                   .num_records = shards.count(shard),
                                   .max_record_bytes = arguments->max_record_bytes,
                                   .use_index = !no_index,
                                   .on_progress = on_progress});
  });

  Totals total;
  TextTable table({"shard", "records", "bytes", "stored", "index", "damage"});
  std::vector<RecordFault> all_damage;
  std::string details;
  ordered_json list = ordered_json::array();
  for (const ShardVerification& found : results) {
    total.records += found.records;
    total.bytes += found.bytes;
    total.file_bytes += found.file_bytes;
    total.damaged_shards += found.damage.empty() ? 0 : 1;
    total.places += found.damage.size();
    total.index_problems += found.index_problem ? 1 : 0;
    if (results.size() <= kMostListed || !found.damage.empty() || found.index_problem) {
      table.add({found.path, with_commas(found.records), with_commas(found.bytes), compression_cell(found),
                 index_cell(found), damage_cell(found)});
    }
    for (const RecordFault& fault : found.damage) {
      details += fmt::format("{}\n    {}\n", fault.error.to_string(), to_text(loss_of({fault})));
      all_damage.push_back(fault);
    }
    if (found.index_problem) details += found.index_problem->to_string() + "\n";
    if (arguments->json) list.push_back(to_json(found));
  }
  const Loss loss = loss_of(all_damage);
  const bool good = total.places == 0 && total.index_problems == 0;
  if (arguments->json) {
    const ordered_json json = {{"good", good},
                               {"records", total.records},
                               {"bytes", total.bytes},
                               {"file_bytes", total.file_bytes},
                               {"damaged_shards", total.damaged_shards},
                               {"damaged_places", total.places},
                               {"bytes_lost", loss.bytes},
                               {"bytes_lost_known", loss.bytes_known},
                               {"records_lost", loss.records},
                               {"records_lost_known", loss.records_known},
                               {"index_problems", total.index_problems},
                               {"shards", std::move(list)}};
    std::cout << json_line(json) << "\n";
  } else {
    std::cout << table.text() << details
              << fmt::format("{}: {}, {}; ", counted(results.size(), "shard"), counted(total.records, "record"),
                             counted(total.bytes, "byte"));
    if (total.places == 0) {
      std::cout << "no damage";
    } else {
      std::cout << fmt::format("{} damaged: {}", counted(total.damaged_shards, "shard"), to_text(loss));
    }
    if (total.index_problems > 0)
      std::cout << fmt::format("; {} not fitting",
                               total.index_problems == 1 ? "1 index" : fmt::format("{} indexes", total.index_problems));
    std::cout << "\n";
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("dataset_verify", [&] { return run(argc, argv); });
}
