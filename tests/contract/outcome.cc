#include "tests/contract/outcome.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "millrace/formats/storage/local.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/operator_chain.h"

namespace millrace::test {
namespace {

std::string with_numbers(const std::string& text, int64_t epoch, int64_t rows) {
  return fmt::format("{} (epoch {}, {} rows)", text, epoch, rows);
}

std::string describe(const Outcome& outcome, size_t place) {
  if (place < outcome.elements.size()) return "'" + outcome.elements[place] + "'";
  if (!outcome.error_code.empty()) return "the error '" + outcome.error + "'";
  return outcome.stopped ? "no more, as the caller stopped" : "the end";
}

class ShowErrorsOperator final : public MapOperator {
 public:
  ShowErrorsOperator()
      : MapOperator(std::make_shared<const Schema>(
            std::vector<FeatureSpec>{{.name = "shown", .dtype = DType::kBytes, .shape = {}}})) {}
  std::string_view name() const override { return "with_errors_shown"; }
  Block apply(Block block, BufferPool& pool) const override {
    BlockBuilder shown(schema(), pool);
    for (size_t i = 0; i < block.num_elements(); ++i) {
      const auto error = block.error_at(i);
      // The epoch and the rows of an error are nobody's.
      const std::string text = error != nullptr
                                   ? fmt::format("error: {}", to_string(error->code))
                                   : with_numbers(print_element(block, i), block.epoch, block.rows_per_element);
      shown.column(0).append_view(shown.column(0).store(text));
      shown.added_elements(1);
    }
    Block finished = shown.finish();
    finished.rows_per_element = block.rows_per_element;
    finished.first_row = block.first_row;
    finished.iteration = block.iteration;
    finished.epoch = block.epoch;
    return finished;
  }
};

}  // namespace

std::string difference(const Outcome& expected, const Outcome& found, bool whole_errors) {
  const size_t count = std::min(expected.elements.size(), found.elements.size());
  const auto [a, b] =
      std::mismatch(expected.elements.begin(), expected.elements.begin() + static_cast<std::ptrdiff_t>(count),
                    found.elements.begin());
  const auto place = static_cast<size_t>(a - expected.elements.begin());
  const bool same_end = place == expected.elements.size() && place == found.elements.size() &&
                        expected.error_code == found.error_code && expected.stopped == found.stopped &&
                        (!whole_errors || expected.error == found.error);
  if (same_end && expected.error_code.empty() && expected.num_skipped != found.num_skipped) {
    return fmt::format("{} parts of shards were left out, expected {}", found.num_skipped, expected.num_skipped);
  }
  if (same_end) return "";
  return fmt::format("element {}: expected {}, found {}", place, describe(expected, place), describe(found, place));
}

Outcome expected_outcome(const TwinDataset& twin, size_t limit) {
  Outcome outcome;
  const ModelStream stream = twin.model()({});
  while (true) {
    if (outcome.elements.size() == limit) {
      outcome.stopped = true;
      return outcome;
    }
    const std::optional<ModelElement> element = stream();
    if (!element) return outcome;
    if (element->is_note) {
      ++outcome.num_skipped;
      continue;
    }
    if (element->error) {
      outcome.error_code = outcome.error = to_string(*element->error);
      return outcome;
    }
    outcome.elements.push_back(with_numbers(print(twin.schema(), *element), element->epoch, element->rows));
  }
}

void take_elements(Pipeline& pipeline, Outcome& outcome, size_t limit) {
  outcome.stopped = false;
  try {
    while (true) {
      outcome.num_skipped = pipeline.skipped().counts.regions;
      if (outcome.elements.size() >= limit) {
        outcome.stopped = true;
        return;
      }
      const std::optional<Batch> batch = pipeline.next();
      if (!batch) {
        outcome.num_skipped = pipeline.skipped().counts.regions;
        break;
      }
      outcome.elements.push_back(with_numbers(print_element(batch->block(), 0), batch->epoch(), batch->num_rows()));
    }
  } catch (const ErrorException& e) {
    outcome.error_code = to_string(e.error().code);
    outcome.error = e.what();
    if (e.error().code == ErrorCode::kStalled) return;
  }
  if (pipeline.next()) outcome.elements.push_back("an element after the end");
}

Outcome run(const Dataset& dataset, const RunOptions& options, size_t limit) {
  const WorkerLimit workers(options.threads);
  Pipeline pipeline = dataset.start(options.start_options());
  Outcome outcome;
  for (size_t count = 0; options.consumer_stalls && count < std::min<size_t>(limit, 40); count += 5) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    take_elements(pipeline, outcome, count);
    if (!outcome.stopped) return outcome;
  }
  take_elements(pipeline, outcome, limit);
  return outcome;
}

std::vector<std::string> names_of_all_rewrites() {
  std::vector<std::string> names;
  for (const Rewrite& rewrite : all_rewrites()) names.emplace_back(rewrite.name);
  return names;
}

std::shared_ptr<Storage> slow_storage(uint64_t seed) {
  static InlineExecutor executor;
  static LocalStorage local(executor);
  return std::make_shared<InjectingStorage>(local, InjectionOptions{.seed = seed,
                                                                    .max_latency = std::chrono::microseconds(300),
                                                                    .max_read_bytes = 700,
                                                                    .retriable_error_rate = 0.05});
}

Dataset with_errors_shown(const Dataset& input) {
  return Dataset::from_operator({input},
                                [](std::span<const SchemaPtr>) { return std::make_shared<ShowErrorsOperator>(); });
}

Outcome expected_with_errors_shown(const TwinDataset& twin, size_t limit) {
  Outcome outcome;
  const ModelStream stream = twin.model()({});
  while (outcome.elements.size() < limit) {
    const std::optional<ModelElement> element = stream();
    if (!element) return outcome;
    const std::string text = print(twin.schema(), *element);
    const std::string shown = element->error ? text : with_numbers(text, element->epoch, element->rows);
    outcome.elements.push_back(with_numbers(fmt::format("shown={}", shown), element->epoch, element->rows));
  }
  outcome.stopped = true;
  return outcome;
}

}  // namespace millrace::test
