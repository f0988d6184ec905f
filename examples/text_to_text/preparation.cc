#include "examples/text_to_text/preparation.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/text_to_text/text_encoder.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/writer.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/tokenizer/training/unigram_trainer.h"
#include "millrace/trainer/run/shard_set_writer.h"

namespace millrace {
namespace {

// The rows of all splits. Fills in what the list of packages says: classes, and what is left out.
Dataset rows_of(const PreparationOptions& options, PreparationReport& report) {
  TextTask& task = report.task;
  if (options.packages.path.empty()) {
    task.check();
    std::array<SplitShares, kSplitNames.size()> shares = {options.shares, {1, 0}, {0, 1}};
    if (!options.csv[1].empty()) shares[0].validation = 0;
    if (!options.csv[2].empty()) shares[0].test = 0;
    std::vector<Dataset> splits;
    for (size_t split = 0; split < kSplitNames.size(); ++split) {
      if (options.csv[split].empty()) continue;
      const Dataset rows = csv_rows(options.csv[split], options.columns, task, /*needs_class=*/true);
      splits.push_back(with_splits(rows, "group", options.seed, shares[split]));
    }
    return Dataset::concatenate(splits);
  }
  DrawnPackagesOptions packages = options.packages;
  packages.seed = options.seed;
  for (const TextClass& one : task.classes) packages.sections.push_back(one.name);
  const DrawnPackages drawn = drawn_packages(packages);
  if (task.classes.empty()) {
    for (const std::string& section : drawn.sections) task.classes.push_back({section, section});
  }
  task.check();
  report.left_out = drawn.left_out;
  return with_splits(package_rows(drawn, task), "group", options.seed, options.shares);
}

// The text of a tokenizer.json; empty when it was stopped.
std::string tokenizer_json(const PreparationOptions& options, const TextTask& task, const Dataset& rows,
                           const std::function<bool()>& stop) {
  if (!options.tokenizer.empty()) {
    const std::filesystem::path given = options.tokenizer;
    return read_whole_file((std::filesystem::is_directory(given) ? given / "tokenizer.json" : given).string());
  }
  UnigramTrainerOptions training{
      .layout = UnigramLayout::kT5, .vocab_size = options.vocab_size, .threads = options.threads, .seed = options.seed};
  for (const TextClass& one : task.classes) training.whole_words.push_back(one.word);
  UnigramTrainer trainer(training);
  trainer.add(task.prefix);
  Pipeline pipeline = rows.start({.threads = options.threads});
  while (const std::optional<Batch> row = pipeline.next()) {
    if (stop && stop()) return {};
    if (row->values<int64_t>("split")[0] != 0) continue;
    trainer.add(row->values<std::string_view>("title")[0]);
    trainer.add(row->values<std::string_view>("body")[0]);
  }
  if (trainer.num_words() == 0) refuse("there is no row to train on");
  return trainer.train().to_json();
}

// Adds `record`, a `tensorflow.Example`.
Dataset with_records(const Dataset& rows, const TextEncoder& encoder) {
  return rows.map({.name = "record",
                   .writes = {{.name = "record", .dtype = DType::kBytes, .shape = {}}},
                   .function = [encoder](const RowView& row, RowWriter& out) {
                     constexpr std::array<int64_t, 2> kBoth = {1, 1};
                     const std::span<const int64_t> number = row.values<int64_t>("class");
                     ExampleWriter example;
                     example.add("input_ids", row.values<int32_t>("input_ids"));
                     example.add("attention_mask", row.values<int64_t>("attention_mask"));
                     example.add("labels", encoder.labels_of(number[0]));
                     example.add("decoder_attention_mask", std::span(kBoth));
                     example.add("class", number);
                     out.set("record", example.finish());
                   }});
}

void check_report(const PreparationReport& report) {
  const SplitReport& train = report.splits[0];
  if (train.rows == 0) refuse("there is no row to train on");
  for (size_t i = 0; i < train.of_class.size(); ++i) {
    if (train.of_class[i] == 0) refuse(fmt::format("class '{}' has no row to train on", report.task.classes[i].name));
  }
}

}  // namespace

std::string split_file(size_t split, int64_t num_rows) {
  return fmt::format("{}-{}.tfrecord", kSplitNames[split], num_rows);
}

std::optional<PreparationReport> prepare(const PreparationOptions& options,
                                         const std::function<void(int64_t)>& on_progress,
                                         const std::function<bool()>& stop) {
  PreparationReport report{.task = options.task};
  const Dataset rows = rows_of(options, report);
  const std::string tokenizer_text = tokenizer_json(options, report.task, rows, stop);
  if (tokenizer_text.empty()) return std::nullopt;
  const std::string path = options.tokenizer.empty() ? "the new tokenizer" : options.tokenizer;
  const Tokenizer tokenizer = Tokenizer::from_json(tokenizer_text, path);
  const TextEncoder encoder(report.task, tokenizer, path);
  report.vocab_size = tokenizer.size();

  ShardSetOptions set{.shard_names = R"((train|validation|test)-\d+\.tfrecord)"};
  for (size_t split = 0; split < kSplitNames.size(); ++split) {
    set.splits.push_back({.file_name = [split](int64_t, int64_t num_rows) { return split_file(split, num_rows); }});
    report.splits[split].of_class.resize(report.task.classes.size());
  }
  ShardSetWriter writer(options.out, std::move(set));
  Pipeline pipeline = with_records(encoder.encoded(rows), encoder).start({.threads = options.threads});
  int64_t num_rows = 0;
  while (const std::optional<Batch> row = pipeline.next()) {
    if (stop && stop()) return std::nullopt;
    const auto split = static_cast<size_t>(row->values<int64_t>("split")[0]);
    const int64_t length = row->values<int64_t>("length")[0];
    writer.write(split, row->values<std::string_view>("record")[0]);
    SplitReport& of_split = report.splits[split];
    ++of_split.rows;
    of_split.truncated += length > report.task.max_length ? 1 : 0;
    of_split.tokens += std::min(length, report.task.max_length);
    ++of_split.of_class[static_cast<size_t>(row->values<int64_t>("class")[0])];
    if (on_progress) on_progress(++num_rows);
  }
  check_report(report);
  writer.finish_shards();
  writer.commit({{.name = "statistics.json", .text = nlohmann::ordered_json(report).dump(2) + "\n"},
                 {.name = "tokenizer.json", .text = tokenizer_text}});
  return report;
}

void to_json(nlohmann::ordered_json& json, const PreparationReport& report) {
  json = {{"vocabulary_size", report.vocab_size}, {"task", report.task}};
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    const SplitReport& split = report.splits[i];
    json[kSplitNames[i]] = {{"rows", split.rows}, {"truncated_rows", split.truncated}, {"tokens", split.tokens}};
    for (size_t c = 0; c < split.of_class.size(); ++c) {
      json[kSplitNames[i]]["classes"][report.task.classes[c].name] = split.of_class[c];
    }
  }
  for (const auto& [why, count] : report.left_out) json["left_out"][why] = count;
}

}  // namespace millrace
