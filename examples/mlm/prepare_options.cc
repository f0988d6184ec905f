#include "examples/mlm/prepare_options.h"

#include <fmt/format.h>

#include "examples/mlm/corpus_options.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr const char* kAbout =
    "Turns text into TFRecord shards for the training of a masked language model.\n\n"
    "Every line is encoded with [CLS] and [SEP] around it; the ids of a group of lines are joined and cut into "
    "records\n"
    "of --max-length; what is left of the group is dropped. The folder --out then holds\n"
    "  train/dataset-{i}-{n}.tfrecord     n: records in it; the same for validation; of zstd .tfrecord.zst\n"
    "  split-train-records-count.txt      the same for validation\n"
    "  statistics.json                    tokens, records, unigram entropy\n"
    "Shards of an earlier run are replaced when all new ones are written.";

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

}  // namespace

std::optional<PrepareOptions> parse_prepare_options(int argc, char** argv) {
  PrepareOptions options;
  ShardPreparationOptions& preparation = options.preparation;
  const auto set_compression = [&preparation](const std::string& name) {
    const std::optional<Compression> compression = compression_from_name(name);
    if (!compression) refuse(fmt::format("--compression is '{}', must be none, zlib, gzip or zstd", name));
    preparation.compression = *compression;
  };
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("tokenizer", po::value(&options.tokenizer), "tokenizer.json, as train_unigram writes it")
      ("out", po::value(&options.out), "folder of the shards, local or s3://BUCKET/FOLDER, gs://…; made when it is not there");
  add_corpus_options(visible, options.corpus);
  visible.add_options()
      ("max-length", whole_number(preparation.max_length, {1, kMostRecordTokens}), "tokens in a record")
      ("rows-per-group", whole_number(preparation.groups.rows_per_group, {1, kMostRowsPerGroup}),
       "lines that are joined before they are cut")
      ("validation-every", whole_number(preparation.groups.validation_every, {2, limits::kCount}),
       "every so many-th group is validation, the others train; of a text with fewer groups the last one")
      ("records-per-shard", whole_number(preparation.records_per_shard, {1, limits::kCount}), "records in a file")
      ("compression", po::value<std::string>()->default_value("none")->notifier(set_compression),
       "how the files are stored: none, zlib, gzip or zstd")
      ("threads", whole_number(preparation.threads, {0, limits::kThreads}),
       "threads that encode; 0: one for each core. The files do not depend on it")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(argc, argv,
                                        {.name = "prepare_tfrecord_shards",
                                         .about = kAbout,
                                         .usage = "--tokenizer FILE --out DIR [--text FILES...] [options]"},
                                        visible);
  if (!given) return std::nullopt;
  if (options.tokenizer.empty()) refuse("--tokenizer is missing; see prepare_tfrecord_shards --help");
  if (options.out.empty()) refuse("--out is missing; see prepare_tfrecord_shards --help");
  options.json = given->contains("json");
  return options;
}

}  // namespace millrace
