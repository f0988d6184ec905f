// Graphs of operators, and sources in every way to run them, whose shards come over the network, by HTTP, from S3 and
// from Google's store, from a server that fails: the same stream as from local files, or one error that says where and
// why. Environment: MILLRACE_SOAK=1 for 1,000 scripts of faults instead of 100 and for 20 draws of each source, and for
// inputs of several of them, MILLRACE_GRAPH_SEED=N for the graph of this seed.
#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract/checks.h"
#include "tests/contract/graph.h"
#include "tests/contract/outcome.h"
#include "tests/contract/save_points.h"
#include "tests/contract/served_files.h"
#include "tests/contract/shard_files.h"
#include "tests/support/sanitized.h"
#include "tests/support/soak.h"

namespace millrace::test::served_graphs_test {
namespace {

using Store = ServedFiles::Store;

constexpr size_t kMostElements = 60;
constexpr uint64_t kParts = 4;  // of the graphs, which run beside each other
constexpr const char* kChanged = "was changed while it was read";

Store store_of(uint64_t seed) { return std::array{Store::kHttp, Store::kS3, Store::kGoogle}[seed % 3]; }

// Local files from a server with the faults of a seed.
std::shared_ptr<ServedFiles> failing_files(uint64_t seed) {
  const Store store = store_of(seed);
  return std::make_shared<ServedFiles>(ServedFiles::Options{.store = store, .fault = drawn_faults(seed, store)});
}

// What is wrong with a listing of shards with the faults of a seed, after which they are read of the versions that it
// names.
std::string fault_of_listing(ServedFiles& served) {
  const std::string pattern = ShardFiles::get().path("*-[0-2]");
  const std::vector<std::string> expected = glob_local(pattern);
  const std::vector<std::string> found = served.glob(pattern);
  return found == expected ? "" : fmt::format("listed are {} instead of {}", fmt::join(found, ", "), expected.size());
}

// The same of a run in whose midst all objects get a new version, of the same bytes: who has begun with an old one has
// an error, of what came before. `shuffles`: then rows after it may come before it, and with them whatever the graph
// makes of them, an error of its own or its end.
std::string fault_of_change(const Dataset& dataset, const Outcome& expected, bool shuffles, uint64_t seed,
                            int threads) {
  const auto served = std::make_shared<ServedFiles>(ServedFiles::Options{
      .store = store_of(seed), .fault = drawn_faults(seed + 1, store_of(seed)), .changed_at = 2 + seed % 7});
  if (std::string wrong = fault_of_listing(*served); !wrong.empty()) return wrong;
  const auto says_why = [](const std::string& error) {
    return error.find(kChanged) != std::string::npos ||
           error.find("the file is another one than when") != std::string::npos;
  };
  try {
    const Outcome outcome = run(dataset, {.threads = threads, .storage = served}, kMostElements);
    const std::string other = difference(expected, outcome, true);
    const bool is_beginning =
        shuffles || (outcome.elements.size() <= expected.elements.size() &&
                     std::equal(outcome.elements.begin(), outcome.elements.end(), expected.elements.begin()));
    const std::string& code = outcome.error_code;
    const bool ends_well =
        code == "io" ? says_why(outcome.error) : shuffles && code != "stalled" && code != "out_of_memory";
    if (other.empty() || (is_beginning && ends_well)) return "";
    return fmt::format("with objects that change: {}; its error is '{}'", other, outcome.error);
  } catch (const ErrorException& exception) {  // of an index that is read before it begins
    return says_why(exception.error().message) ? "" : "at its start: " + exception.error().message;
  }
}

std::string text_of(const Graph& graph) {
  std::ostringstream text;
  text << graph;
  return text.str();
}

// What is wrong with a graph whose shards are served with the faults of its seed; empty: nothing. `resumed`: it was
// saved after half of its elements and went on from the other kind of storage.
std::string fault_of(const Graph& graph) {
  const Dataset dataset = build(graph)->dataset();
  const Outcome expected = run(dataset, {.threads = 2}, kMostElements);
  const auto served = failing_files(graph.seed);
  const int threads = graph.seed % 2 == 0 ? 1 : 4;
  // Without a listing what is opened is asked for.
  const bool is_listed = graph.seed % 5 < 2;
  std::string wrong = is_listed ? fault_of_listing(*served) : "";
  if (!wrong.empty()) return wrong;
  wrong = difference(expected, run(dataset, {.threads = threads, .storage = served}, kMostElements), true);
  if (!wrong.empty()) return "served: " + wrong;
  const size_t half = expected.elements.size() / 2;
  for (const bool from_served : {true, false}) {
    const RunOptions first{.threads = threads, .storage = from_served ? served : nullptr};
    const RunOptions second{.threads = threads, .storage = from_served ? nullptr : served};
    Outcome outcome;
    std::string state;
    {
      Pipeline pipeline = dataset.start(first.start_options());
      take_elements(pipeline, outcome, half);
      if (!outcome.stopped) return "it ends before its half: " + outcome.error;
      state = save(pipeline);
    }
    Pipeline pipeline = resume(dataset, second.start_options(), state);
    take_elements(pipeline, outcome, kMostElements);
    wrong = difference(expected, outcome, true);
    if (!wrong.empty()) return fmt::format("saved {}, then resumed: {}", from_served ? "served" : "local", wrong);
  }
  // What it drops may be the rest of a shard.
  const auto has = [text = text_of(graph)](const char* name) { return text.find(name) != std::string::npos; };
  if (graph.seed / kParts % 4 != 0 || has("ignore_errors")) return "";
  return fault_of_change(dataset, expected, has("shuffle("), graph.seed, threads);
}

class ServedGraphs : public testing::TestWithParam<uint64_t> {};

TEST_P(ServedGraphs, GiveTheStreamOfLocalFiles) {
  const int64_t count = (soaking() ? 1000 : kSanitized ? 24 : 100) / static_cast<int64_t>(kParts);
  uint64_t seed = seed_of_this_run() + GetParam();
  const std::optional<int64_t> only = number_from_environment("MILLRACE_GRAPH_SEED");
  for (int64_t tried = 0; tried < (only ? 1 : count); seed += kParts) {
    const Graph graph = draw_graph(only ? static_cast<uint64_t>(*only) : seed);
    if (!build(graph)->reads_shards()) continue;
    ++tried;
    const std::string fault = fault_of(graph);
    ASSERT_EQ(fault, "") << text_of(graph) << "once more: MILLRACE_GRAPH_SEED=" << graph.seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Part, ServedGraphs, testing::Range(uint64_t{0}, kParts));

class ServedSources : public testing::TestWithParam<uint64_t> {};

// All of the contract: saved and dropped at every element, saved twice in a row, with pending between the operators.
TEST_P(ServedSources, KeepTheContract) {
  const uint64_t draws = soaking() ? 20 : 1;
  for (size_t line = GetParam(); line < source_lines().size(); line += kParts) {
    const SourceLine& source = source_lines()[line];
    if (source.takes_inputs && !soaking()) continue;
    for (uint64_t seed = seed_of_this_run(); seed < seed_of_this_run() + draws; ++seed) {
      Picks drawn(seed, line);
      const TwinDataset twin = source.make(drawn, {});
      if (!twin.reads_shards()) continue;
      const std::string broken = broken_promise(
          [&](const Weave& weave) {
            Picks picks(drawn.numbers());
            return source.make(picks, weave);
          },
          {.seed = seed, .storage = failing_files});
      EXPECT_EQ(broken, "") << twin.code() << "\nonce more: MILLRACE_SEED=" << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Part, ServedSources, testing::Range(uint64_t{0}, kParts));

struct Final {
  const char* name;
  ServedFault fault;
  const char* cause;
};

class ServedFaults : public testing::TestWithParam<Final> {};

// Each fault that asking again does not mend, from its third request on: what came before is as it was, and the error
// names the shard's URL and its cause.
TEST_P(ServedFaults, IsOneError) {
  const Final& tested = GetParam();
  const Dataset dataset = Dataset::tfrecord(shards({"long-0", "long-1"}));
  const Outcome expected = run(dataset, {.threads = 1});
  for (const int threads : {1, 4}) {
    const auto served = std::make_shared<ServedFiles>(ServedFiles::Options{
        .fault = [&](const ServedRequest& request) { return request.number < 2 ? ServedFault() : tested.fault; }});
    const Outcome outcome = run(dataset, {.threads = threads, .storage = served});
    ASSERT_EQ(outcome.error_code, "io");
    EXPECT_THAT(outcome.error, testing::HasSubstr("http://127.0.0.1:"));
    EXPECT_THAT(outcome.error, testing::HasSubstr(tested.cause));
    ASSERT_LT(outcome.elements.size(), expected.elements.size());
    for (size_t i = 0; i < outcome.elements.size(); ++i) ASSERT_EQ(outcome.elements[i], expected.elements[i]);
  }
}

using Kind = ServedFault::Kind;
INSTANTIATE_TEST_SUITE_P(
    Served, ServedFaults,
    testing::Values(Final{"forbidden", {.kind = Kind::kStatus, .status = 403, .text = "no"}, "status 403"},
                    Final{"gone", {.kind = Kind::kStatus, .status = 404}, "status 404"},
                    Final{"down", {.kind = Kind::kStatus, .status = 503}, "status 503"},
                    Final{"resets", {.kind = Kind::kResetBeforeHead}, "attempts"},
                    Final{"stalls", {.kind = Kind::kStallBeforeHead}, "no answer came in time"},
                    Final{"other_range", {.kind = Kind::kWrongContentRange}, "other bytes"},
                    Final{"no_range", {.kind = Kind::kNoContentRange}, "Content-Range"},
                    Final{"more_bytes", {.kind = Kind::kMoreBytes}, "more than the"},
                    Final{"encoded", {.kind = Kind::kEncoded}, "what it sends is encoded as 'gzip'"},
                    Final{"encoded_chunked", {.kind = Kind::kEncodedChunked}, "what it sends is encoded as 'gzip'"},
                    Final{"whole", {.kind = Kind::kWholeObject}, "no ranges"},
                    Final{"changed", {.kind = Kind::kOtherTag}, kChanged}),
    [](const auto& tested) { return std::string(tested.param.name); });

class ChangedFiles : public testing::TestWithParam<Store> {};

// By their listing or the first answer, and the same bytes as before: it is the version that counts.
TEST_P(ChangedFiles, AreOneErrorOfWhatWasReadBefore) {
  const Dataset dataset = Dataset::tfrecord(shards({"long-0", "long-1"}));
  const Outcome expected = run(dataset, {.threads = 1});
  for (const bool is_listed : {true, false}) {
    const auto served = std::make_shared<ServedFiles>(ServedFiles::Options{.store = GetParam(), .changed_at = 3});
    if (is_listed) {
      ASSERT_EQ(fault_of_listing(*served), "");
    }
    const Outcome outcome = run(dataset, {.threads = 2, .storage = served});
    ASSERT_EQ(outcome.error_code, "io") << outcome.error;
    EXPECT_THAT(outcome.error, testing::HasSubstr(kChanged));
    EXPECT_THAT(outcome.error, testing::HasSubstr("/long-"));
    ASSERT_LT(outcome.elements.size(), expected.elements.size());
    for (size_t i = 0; i < outcome.elements.size(); ++i) ASSERT_EQ(outcome.elements[i], expected.elements[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ChangedFiles, testing::Values(Store::kHttp, Store::kS3, Store::kGoogle),
                         [](const auto& tested) { return to_string(tested.param); });

}  // namespace
}  // namespace millrace::test::served_graphs_test
