// Every operator and every source by itself, on inputs of all kinds.

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/pipeline/worker_limit.h"
#include "tests/contract/checks.h"
#include "tests/contract/graph.h"
#include "tests/support/gathered_bodies.h"
#include "tests/support/sanitized.h"

namespace millrace::test::operators_test {
namespace {

// Of the numbers of an operator, for each input.
constexpr uint64_t kDraws = kSanitized ? 1 : 2;

struct Input {
  const char* name;
  TwinDataset (*make)(const Weave& weave);
};

TwinDataset records(const Weave& weave) {
  return TwinDataset::tfrecord({"plain-0", "zlib-2", "gzip-1", "zstd-3", "plain-4"},
                               {.cycle_length = 2, .block_length = 2}, weave);
}

const std::array kInputs{
    Input{"numbers", [](const Weave& w) { return TwinDataset::range(0, 23, 1, w); }},
    Input{"no numbers", [](const Weave& w) { return TwinDataset::range(0, 0, 1, w); }},
    Input{"rows of unlike lengths", [](const Weave& w) { return TwinDataset::rows(19, w); }},
    Input{"ragged batches", [](const Weave& w) { return TwinDataset::rows(19, w).ragged_batch(3, false); }},
    Input{"records", records},
    Input{"records of an empty shard", [](const Weave& w) { return TwinDataset::tfrecord({"plain-2"}, {}, w); }},
    Input{"damaged records",
          [](const Weave& w) {
            return TwinDataset::tfrecord({"damaged-0", "odd-0"}, {.cycle_length = 2}, w);
          }},
    Input{"records without the damaged ones",
          [](const Weave& w) {
            return TwinDataset::tfrecord({"damaged-0", "gzip-3", "damaged-1"},
                                         {.cycle_length = 2, .damage = {.action = DamagePolicy::kSkip}}, w);
          }},
    Input{"records in a global order",
          [](const Weave& w) {
            return TwinDataset::global_shuffle({"indexed-0", "indexed-1", "indexed-2", "indexed-5"},
                                               {.seed = 3, .window = 4}, w)
                .repeat(2);
          }},
    Input{"records in a global order without the damaged ones",
          [](const Weave& w) {
            return TwinDataset::global_shuffle({"indexed-3", "indexed-2"}, {.damage = {.action = DamagePolicy::kSkip}},
                                               w);
          }},
    Input{"batches of records", [](const Weave& w) { return records(w).batch(3, false); }},
    Input{"tokens",
          [](const Weave& w) {
            return records(w).parse_example({"tokens", "mask", "weight_or_half", "name", "id"});
          }},
    Input{"tokens with errors between",
          [](const Weave& w) {
            return TwinDataset::tfrecord({"odd-0", "odd-1"}, {.cycle_length = 1}, w)
                .parse_example({"tokens", "mask", "weight"});
          }},
    Input{"epochs of batches of tokens",
          [](const Weave& w) {
            return records(w).parse_example({"tokens32", "mask"}).batch(4, false).repeat(2);
          }},
    Input{"numbers with errors between",
          [](const Weave& w) { return TwinDataset::range(0, 30, 1, w).map_fail_rows(4, 1); }},
    Input{"nested inputs",
          [](const Weave& w) {
            return TwinDataset::interleave({TwinDataset::range(0, 7, 1, w).shuffle(4, {.seed = 1}),
                                            TwinDataset::range(50, 50, 1, w), TwinDataset::range(100, 105, 1, w)},
                                           {.cycle_length = 2, .block_length = 2}, w);
          }},
    Input{"endless numbers", [](const Weave& w) { return TwinDataset::range(0, 11, 1, w).repeat(-1); }},
};

// Those that fit a line; for ThreadSanitizer, under which each run takes seconds, every third of them, others for the
// next line.
std::vector<Input> inputs_of(const OperatorLine& line, size_t number) {
  std::vector<Input> fitting;
  std::ranges::copy_if(kInputs, std::back_inserter(fitting),
                       [&](const Input& input) { return line.fits(input.make({})); });
  if (!kThreadSanitized || fitting.size() < 3) return fitting;
  std::vector<Input> some;
  for (size_t i = number % 3; i < fitting.size(); i += 3) some.push_back(fitting[i]);
  return some;
}

class Operators : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(, Operators, testing::Range<size_t>(0, operator_lines().size()), [](const auto& line) {
  return std::string(operator_lines()[line.param].name) + "_" + std::to_string(line.param);
});

TEST_P(Operators, KeepTheContractOnEveryInputThatFits) {
  const OperatorLine& line = operator_lines()[GetParam()];
  uint64_t num_draws = 0;
  for (const Input& input : inputs_of(line, GetParam())) {
    for (uint64_t i = 0; i < kDraws; ++i) {
      const uint64_t seed = ++num_draws;
      Picks drawn(seed, GetParam());
      const std::string code = line.add(input.make({}), drawn).code();
      const std::string broken = broken_promise(
          [&](const Weave& weave) {
            Picks picks(drawn.numbers());
            return line.add(input.make(weave), picks);
          },
          {.seed = seed, .limit = 60});
      EXPECT_EQ(broken, "") << "on " << input.name << ":\n" << code;
    }
  }
  EXPECT_GT(num_draws, 0);
}

TEST_P(Operators, GiveOneStreamOnThreadsThatReallyRun) {
  const OperatorLine& line = operator_lines()[GetParam()];
  int64_t streams = 0;
  for (const Input& input : kInputs) {
    if (!line.fits(input.make({}))) continue;
    // A repeat may be forever with some numbers, and a skip of everything.
    uint64_t seed = 1;
    const auto draw = [&] {
      Picks picks(seed++, GetParam());
      return line.add(input.make({}), picks);
    };
    TwinDataset twin = draw();
    while (twin.infinite() && !input.make({}).infinite()) twin = draw();
    if (twin.was_infinite()) continue;
    const auto is_empty = [](const TwinDataset& drawn) {
      return !drawn.infinite() && expected_with_errors_shown(drawn, 1).elements.empty();
    };
    while (seed < 20 && (twin.infinite() || is_empty(twin))) twin = draw();
    if (twin.infinite() || is_empty(twin)) continue;
    for (const int threads : {1, 2, 8}) {
      // A block for each epoch, so that every thread can have one.
      const TwinDataset epochs = twin.repeat(2 * threads);
      const Dataset shown = with_errors_shown(epochs.dataset());
      Gathering gathering(threads);
      const WorkerLimit workers(threads);
      Pipeline pipeline = with_gathered_bodies(shown, gathering)
                              .start({.threads = threads, .disabled_rewrites = names_of_all_rewrites()});
      Outcome outcome;
      take_elements(pipeline, outcome);
      EXPECT_EQ(difference(expected_with_errors_shown(epochs), outcome, false), "") << epochs.code();
      EXPECT_GE(gathering.most(), threads) << epochs.code();
      EXPECT_GE(pipeline.stats().distinct_workers, threads) << epochs.code();
    }
    if (++streams == 2) break;
  }
  EXPECT_GT(streams, 0);
}

class Sources : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(, Sources, testing::Range<size_t>(0, source_lines().size()), [](const auto& line) {
  return std::string(source_lines()[line.param].name) + "_" + std::to_string(line.param);
});

TEST_P(Sources, KeepTheContract) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Picks drawn(seed, GetParam());
    const std::string code = source_lines()[GetParam()].make(drawn, {}).code();
    const std::string broken = broken_promise(
        [&](const Weave& weave) {
          Picks picks(drawn.numbers());
          return source_lines()[GetParam()].make(picks, weave);
        },
        {.seed = seed});
    EXPECT_EQ(broken, "") << code;
  }
}

}  // namespace
}  // namespace millrace::test::operators_test
