#include "examples/mlm/prepare_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/json/names.h"
#include "millrace/pipeline/run/executor.h"

namespace millrace {
namespace {

int64_t tokens_of(const ShardStatistics& statistics) { return statistics.train.tokens + statistics.validation.tokens; }

}  // namespace

void PreparationProgressLine::show(const PreparationProgress& progress) {
  if (!line_.due()) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  line_.show(fmt::format("{:3.0f}%  {} lines  {} records  {:.2f} million tokens/s",
                         100 * fraction_read_.load(std::memory_order_relaxed), progress.rows, progress.records,
                         static_cast<double>(progress.tokens) / 1e6 / seconds));
}

std::string report_text(const PrepareOptions& options, const ShardStatistics& statistics, const CorpusReport& corpus,
                        double seconds) {
  std::string text = to_text(corpus) + "\n";
  for (const Split split : kTrainAndValidation) {
    const SplitStatistics& part = statistics.of(split);
    text +=
        fmt::format("{:<10} {:>9} records of {} tokens in {} shards, from {} lines; {} tokens dropped\n",
                    to_string(split), part.records, statistics.max_length, part.shards, part.rows, part.dropped_tokens);
  }
  if (statistics.unigram_entropy) {
    text += fmt::format(
        "unigram entropy {:.4f} nats a token: what the validation's ordinary tokens cost under the frequencies of the "
        "training's\n",
        *statistics.unigram_entropy);
    if (statistics.unseen_tokens > 0) {
      text += fmt::format("{} of {} validation tokens never occur in train and count as if they did once\n",
                          statistics.unseen_tokens, statistics.validation.ordinary_tokens);
    }
  } else {
    text += fmt::format(
        "no validation records: the text is too short for groups of {} lines; a smaller --rows-per-group gives some\n",
        options.preparation.groups.rows_per_group);
  }
  return text + fmt::format("written to {} in {:.1f} s, {:.2f} million tokens/s\n", options.out, seconds,
                            static_cast<double>(tokens_of(statistics)) / 1e6 / seconds);
}

std::string report_json(const PrepareOptions& options, const ShardStatistics& statistics, const CorpusReport& corpus,
                        double seconds) {
  auto json = nlohmann::ordered_json::parse(to_json(statistics));
  json["out"] = options.out;
  json["text_files"] = corpus.files;
  json["text_bytes"] = corpus.bytes;
  json["replaced_sequences"] = corpus.replaced_sequences;
  json["repeated_texts"] = corpus.repeated_texts;
  json["joined_lines"] = corpus.joined_lines;
  json["collapsed_spaces"] = corpus.collapsed_spaces;
  json["threads"] = checked_threads(options.preparation.threads);
  json["seconds"] = seconds;
  json["tokens_per_s"] = static_cast<double>(tokens_of(statistics)) / seconds;
  return json_line(json) + "\n";
}

}  // namespace millrace
