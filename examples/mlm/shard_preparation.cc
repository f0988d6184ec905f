#include "examples/mlm/shard_preparation.h"

#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/example/writer.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/tokenizer/special_tokens.h"
#include "millrace/tokenizer/tokenizer.h"
#include "millrace/trainer/run/ordered_work.h"
#include "millrace/trainer/run/shard_set_writer.h"
#include "millrace/trainer/run/tokenizer_files.h"

namespace millrace {
namespace {

// A group on its way through the preparation. Its memory is used again.
struct GroupInFlight {
  RowGroup group;
  std::vector<int32_t> ids;
  int64_t num_tokens = 0;  // of ids: those in records
  ExampleWriter example;
  std::vector<std::string> records;
};

// How often each id occurs in a split.
struct TokenCounts {
  explicit TokenCounts(const RowEncoder& encoder)
      : of_id(static_cast<size_t>(encoder.vocabulary_size)), is_special(of_id.size()) {
    for (const int32_t id : encoder.special_ids) is_special.at(static_cast<size_t>(id)) = true;
  }

  void add(std::span<const int32_t> ids) {
    for (const int32_t id : ids) ++of_id[static_cast<size_t>(id)];
  }
  std::vector<int64_t> ordinary() const {
    std::vector<int64_t> counts;
    for (size_t id = 0; id < of_id.size(); ++id) {
      if (!is_special[id]) counts.push_back(of_id[id]);
    }
    return counts;
  }

  std::vector<int64_t> of_id;
  std::vector<bool> is_special;
};

int64_t sum(std::span<const int64_t> counts) {
  int64_t result = 0;
  for (const int64_t count : counts) result += count;
  return result;
}

void encode_group(const RowEncoder& encoder, std::span<const int64_t> ones, GroupInFlight& work) {
  work.ids.clear();
  work.records.clear();
  for (size_t i = 0; i < work.group.size(); ++i) encoder.encode(work.group.row(i), work.ids);
  for (const int32_t id : work.ids) {
    if (id < 0 || id >= encoder.vocabulary_size) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("the tokenizer gives id {} of a vocabulary of {}", id, encoder.vocabulary_size));
    }
  }
  const auto max_length = static_cast<int64_t>(ones.size());
  for (const std::span<const int32_t> ids : cut_into_records(work.ids, max_length)) {
    work.example.add("input_ids", ids);
    work.example.add("attention_mask", ones);
    work.records.push_back(work.example.finish());
  }
  work.num_tokens = static_cast<int64_t>(work.records.size()) * max_length;
}

class ShardPreparation {
 public:
  ShardPreparation(RowSource rows, const RowEncoder& encoder, const std::string& folder,
                   const ShardPreparationOptions& options)
      : encoder_(encoder),
        options_(options),
        threads_(checked_threads(options.threads)),
        ones_(static_cast<size_t>(options.max_length), 1),
        groups_(std::move(rows), options.groups),
        writer_(folder, mlm_shard_set(options.records_per_shard, options.compression)) {
    statistics_.vocabulary_size = encoder.vocabulary_size;
    statistics_.tokenizer_digest = encoder.tokenizer_digest;
    statistics_.max_length = options.max_length;
  }

  std::optional<ShardStatistics> run() {
    const bool all = work_in_order<GroupInFlight>(
        threads_, options_.stop_requested, [&](GroupInFlight& work) { return groups_.next(work.group); },
        [&](GroupInFlight& work) { encode_group(encoder_, ones_, work); },
        [&](const GroupInFlight& work) { write_group(work); });
    if (!all) return std::nullopt;
    finish();
    return statistics_;
  }

 private:
  void write_group(const GroupInFlight& work) {
    const Split split = work.group.split;
    for (const std::string& record : work.records) writer_.write(static_cast<size_t>(split), record);
    counts(split).add(std::span(work.ids).first(static_cast<size_t>(work.num_tokens)));
    SplitStatistics& statistics = statistics_.of(split);
    statistics.rows += static_cast<int64_t>(work.group.size());
    statistics.tokens += work.num_tokens;
    statistics.dropped_tokens += static_cast<int64_t>(work.ids.size()) - work.num_tokens;
    if (!options_.on_progress) return;
    progress_.rows += static_cast<int64_t>(work.group.size());
    progress_.records += static_cast<int64_t>(work.records.size());
    progress_.tokens += work.num_tokens;
    options_.on_progress(progress_);
  }

  void finish() {
    writer_.finish_shards();
    std::array<std::vector<int64_t>, kTrainAndValidation.size()> ordinary;
    for (const Split split : kTrainAndValidation) {
      SplitStatistics& statistics = statistics_.of(split);
      ordinary[static_cast<size_t>(split)] = counts(split).ordinary();
      statistics.shards = writer_.num_shards(static_cast<size_t>(split));
      statistics.records = writer_.num_records(static_cast<size_t>(split));
      statistics.ordinary_tokens = sum(ordinary[static_cast<size_t>(split)]);
    }
    const SplitStatistics& train = statistics_.train;
    if (train.rows == 0) throw ErrorException(ErrorCode::kInvalidArgument, "the text has no line");
    if (train.records == 0) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          fmt::format("the text gives no record to train on: its {} lines have {} tokens, and no group "
                      "of {} lines reaches a max_length of {}",
                      train.rows, train.dropped_tokens, options_.groups.rows_per_group, options_.max_length));
    }
    const auto& [train_counts, validation_counts] = ordinary;
    statistics_.unigram_entropy = unigram_cross_entropy(train_counts, validation_counts);
    for (size_t token = 0; token < train_counts.size(); ++token) {
      if (train_counts[token] == 0) statistics_.unseen_tokens += validation_counts[token];
    }
    std::vector<ShardSetFile> files = {{.name = "statistics.json", .text = to_json(statistics_)}};
    for (const Split split : kTrainAndValidation) {
      files.push_back({.name = fmt::format("split-{}-records-count.txt", to_string(split)),
                       .text = fmt::format("Total {} records: {}\n", to_string(split), statistics_.of(split).records)});
    }
    writer_.commit(files);
  }

  TokenCounts& counts(Split split) { return counts_[static_cast<size_t>(split)]; }

  const RowEncoder& encoder_;
  const ShardPreparationOptions& options_;
  const int threads_;
  const std::vector<int64_t> ones_;  // an attention mask
  RowGroups groups_;
  ShardSetWriter writer_;
  std::array<TokenCounts, kTrainAndValidation.size()> counts_ = {TokenCounts(encoder_), TokenCounts(encoder_)};
  ShardStatistics statistics_;
  PreparationProgress progress_;
};

}  // namespace

ShardSetOptions mlm_shard_set(int64_t records_per_shard, Compression compression) {
  if (records_per_shard < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("records_per_shard is {}, must be at least 1", records_per_shard));
  }
  ShardSetOptions options{.shard_names = R"(dataset-\d+-\d+\.tfrecord(\.zst)?)", .compression = compression};
  const auto name = [ending = compression == Compression::kZstd ? ".zst" : ""](int64_t index, int64_t num_records) {
    return fmt::format("dataset-{}-{}.tfrecord{}", index, num_records, ending);
  };
  for (const Split split : kTrainAndValidation) {
    options.splits.push_back(
        {.folder = std::string(to_string(split)), .records_per_shard = records_per_shard, .file_name = name});
  }
  return options;
}

RowEncoder encoder_of(const Tokenizer& tokenizer, const std::string& path) {
  RowEncoder encoder;
  encoder.encode = [tokenizer](std::string_view row, std::vector<int32_t>& ids) {
    tokenizer.encode_ids(row, /*add_special_tokens=*/true, ids);
  };
  encoder.vocabulary_size = tokenizer.size();
  encoder.tokenizer_digest = tokenizer_digest(path);
  encoder.special_ids = SpecialTokens::find(tokenizer, path).ids(tokenizer);
  return encoder;
}

std::optional<ShardStatistics> prepare_shards(RowSource rows, const RowEncoder& encoder, const std::string& folder,
                                              const ShardPreparationOptions& options) {
  if (options.max_length > kMostRecordTokens) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("max_length is {}, must be at most {}", options.max_length, kMostRecordTokens));
  }
  if (options.max_length < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("max_length is {}, must be at least 1", options.max_length));
  }
  return ShardPreparation(std::move(rows), encoder, folder, options).run();
}

}  // namespace millrace
