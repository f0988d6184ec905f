#include "tests/contract/checks.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/pipeline/definition/pipeline_def.h"
#include "millrace/pipeline/plan/plan.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/contract/resources.h"
#include "tests/contract/save_points.h"

namespace millrace::test {
namespace {

// The text of a promise that was broken, or nothing.
std::string broken(const std::string& promise, const std::string& how) {
  return how.empty() ? "" : promise + ": " + how;
}

class Checker {
 public:
  Checker(const MakeTwin& make, const CheckOptions& options)
      : make_(make),
        options_(options),
        twin_(make({})),
        limit_(twin_.infinite() ? options.limit : SIZE_MAX),
        rng_(options.seed, operator_id("checks")) {}

  std::string first_broken() {
    using Check = std::string (Checker::*)();
    for (const Check check : {&Checker::elements, &Checker::cardinality, &Checker::other_runs, &Checker::written_down,
                              &Checker::shown_errors, &Checker::dropped, &Checker::saved}) {
      if (std::string broken = (this->*check)(); !broken.empty()) return broken;
    }
    return "";
  }

 private:
  uint64_t draw() { return rng_.bits(num_draws_++); }
  Weave pending() { return {.pending = true, .seed = draw()}; }
  std::shared_ptr<Storage> slow() { return twin_.reads_shards() ? options_.storage(draw()) : nullptr; }
  int some_threads() { return std::array{1, 2, 8}[draw() % 3]; }

  std::string elements() {
    first_ = run(twin_.dataset(), {.threads = 1}, limit_);
    return broken("elements of its description", difference(expected_outcome(twin_, limit_), first_, false));
  }

  std::string cardinality() {
    // What choose and sample report of endless inputs is tf.data's, and need not be so.
    const bool only_reported =
        twin_.was_infinite() && (twin_.has("choose_from_datasets") || twin_.has("sample_from_datasets"));
    const Cardinality cardinality =
        only_reported ? certain_cardinality(*twin_.dataset().plan()) : twin_.dataset().cardinality();
    if (!first_.error_code.empty()) return "";  // errors end it early
    // Data that turns out empty in an epoch, repeated forever, ends; before it is read nobody knows, and tf.data says
    // as much.
    const std::array may_be_empty{"filter",
                                  "flat_map",
                                  "interleave",
                                  "take_while",
                                  "choose_from_datasets",
                                  "sample_from_datasets",
                                  "from_generator",
                                  "rejection_resample"};
    const bool depends =
        std::any_of(may_be_empty.begin(), may_be_empty.end(), [this](const char* name) { return twin_.has(name); });
    if (twin_.was_infinite() && (first_.elements.empty() || depends)) return "";
    if (cardinality.is_infinite() && !first_.stopped) {
      return "cardinality is infinite, and it ends";
    }
    if (cardinality.is_known() && !first_.stopped &&
        cardinality.count() != static_cast<int64_t>(first_.elements.size())) {
      return fmt::format("cardinality is {}, and it has {} elements", cardinality.count(), first_.elements.size());
    }
    return "";
  }

  std::string same(const std::string& promise, const Dataset& dataset, const RunOptions& options) {
    return broken(promise, difference(first_, run(dataset, options, limit_), true));
  }

  std::string other_runs() {
    const Dataset dataset = twin_.dataset();
    std::string wrong = same("the same again", dataset, {.threads = 1});
    if (wrong.empty()) wrong = same("one stream with 2 threads", dataset, {.threads = 2});
    if (wrong.empty()) wrong = same("one stream with 8 threads", dataset, {.threads = 8, .storage = slow()});
    if (wrong.empty()) {
      wrong =
          same("one stream without any rewrite", dataset, {.threads = 2, .disabled_rewrites = names_of_all_rewrites()});
    }
    if (names_of_all_rewrites().size() > 1) {
      for (const std::string& name : names_of_all_rewrites()) {
        if (wrong.empty()) {
          wrong = same("one stream without " + name, dataset, {.threads = 1, .disabled_rewrites = {name}});
        }
      }
    }
    if (wrong.empty()) {
      wrong = same("one stream with pending between the operators", make_(pending()).dataset(),
                   {.threads = some_threads(), .storage = slow()});
    }
    if (wrong.empty()) {
      wrong = same("one stream for a caller that stalls", make_(pending()).dataset(),
                   {.threads = some_threads(), .consumer_stalls = true});
    }
    return wrong;
  }

  // Written as text and as JSON, read back and built again.
  std::string written_down() {
    const Dataset dataset = twin_.dataset();
    const PipelineDef def = PipelineDef::of(dataset);
    const PipelineDef from_text = PipelineDef::from_text(def.to_text());
    const PipelineDef from_json = PipelineDef::from_json(def.to_json());
    if (!def.difference(from_text).empty()) return "as text, its definition changes: " + def.difference(from_text);
    if (!def.difference(from_json).empty()) return "as JSON, its definition changes: " + def.difference(from_json);
    const Dataset again = from_text.dataset();
    if (again.explain({.threads = 1}) != dataset.explain({.threads = 1})) return "written down, it is " + def.to_text();
    return same("one stream when it is written down", again, {.threads = 2});
  }

  // What comes after an error. A rewrite may change that: the first error ends a stream that nobody repairs.
  std::string shown_errors() {
    if (first_.error_code.empty()) return "";
    const size_t limit = twin_.was_infinite() ? options_.limit : SIZE_MAX;
    const Outcome expected = expected_with_errors_shown(twin_, limit);
    return broken("errors stay in their places",
                  difference(expected,
                             run(with_errors_shown(make_(pending()).dataset()),
                                 {.threads = some_threads(), .disabled_rewrites = names_of_all_rewrites()}, limit),
                             false));
  }

  std::vector<std::string> first_elements(size_t count) const {
    const auto end = static_cast<std::ptrdiff_t>(std::min(count, first_.elements.size()));
    return {first_.elements.begin(), first_.elements.begin() + end};
  }
  // How many elements may be taken: one more than there are.
  size_t last_place() const { return std::min(first_.elements.size() + 1, limit_); }

  std::string dropped() {
    const Dataset dataset = twin_.dataset();
    const Dataset woven = make_(pending()).dataset();
    const Resources before = Resources::now();
    for (const size_t place : some_places(last_place(), options_.most_places, draw())) {
      const RunOptions options{.threads = some_threads(), .storage = slow()};
      const WorkerLimit workers(options.threads);
      Pipeline pipeline = (draw() % 2 == 0 ? woven : dataset).start(options.start_options());
      Outcome outcome;
      take_elements(pipeline, outcome, place);
      if (outcome.elements != first_elements(place)) return fmt::format("to be dropped at {}, it gave others", place);
    }
    // Workers of oneTBB stay for the next pipeline: up to 8 of them may be new.
    Resources most = before;
    most.threads += 8;
    return broken("dropped half way, it leaves nothing", left_over(most, /*heap_slack=*/4 << 20));
  }

  // What is saved, and what it must give.
  struct Saving {
    Dataset dataset;
    Dataset prefetching;  // the same with prefetch in some places, which states know nothing of
    const Outcome& expected;
    size_t limit;
    bool errors_shown;
  };

  Saving saving(Weave weave, const Outcome& expected, size_t limit, bool errors_shown) {
    const Dataset plain = make_(weave).dataset();
    weave.prefetch = true;
    if (!weave.pending) weave.seed = draw();
    const Dataset prefetching = make_(weave).dataset();
    return {.dataset = errors_shown ? with_errors_shown(plain) : plain,
            .prefetching = errors_shown ? with_errors_shown(prefetching) : prefetching,
            .expected = expected,
            .limit = limit,
            .errors_shown = errors_shown};
  }

  std::string saved() {
    std::string wrong = saved_everywhere(saving({}, first_, limit_, false));
    // Cut into small blocks, most states are from the middle of things.
    if (wrong.empty()) wrong = saved_everywhere(saving(pending(), first_, limit_, false));
    if (!wrong.empty() || first_.error_code.empty()) return broken("saved and resumed, it goes on the same", wrong);
    const size_t limit = twin_.was_infinite() ? options_.limit : SIZE_MAX;
    const Outcome shown = expected_with_errors_shown(twin_, limit);
    wrong = saved_everywhere(saving({}, shown, limit, true));
    return broken("saved and resumed, it goes on the same after errors", wrong);
  }

  // One run is saved in all places; from each state another goes on.
  std::string saved_everywhere(const Saving& saving) {
    const size_t last = std::min(saving.expected.elements.size() + 1, saving.limit);
    std::vector<size_t> places = some_places(last, options_.most_places, draw());
    std::sort(places.begin(), places.end());
    const RunOptions options = some_options(saving.errors_shown);
    std::vector<std::pair<Outcome, std::string>> saved;
    {
      const WorkerLimit workers(options.threads);
      Pipeline pipeline = some_dataset(saving).start(options.start_options());
      Outcome outcome;
      for (const size_t place : places) {
        take_elements(pipeline, outcome, place);
        saved.emplace_back(outcome, save(pipeline));
      }
    }
    for (size_t i = 0; i < places.size(); ++i) {
      std::string how = fmt::format("started for {} elements{}; ", places[i], described(options));
      if (std::string wrong = resumed(saving, std::move(saved[i].first), std::move(saved[i].second), std::move(how));
          !wrong.empty()) {
        return wrong;
      }
    }
    return "";
  }

  // Where errors are shown, a rewrite may change what comes after the first.
  RunOptions some_options(bool errors_shown) {
    RunOptions options{.threads = some_threads(), .storage = draw() % 2 == 0 ? slow() : nullptr};
    if (errors_shown || draw() % 2 == 0) options.disabled_rewrites = names_of_all_rewrites();
    return options;
  }

  const Dataset& some_dataset(const Saving& saving) { return draw() % 2 == 0 ? saving.dataset : saving.prefetching; }
  static std::string described(const RunOptions& options) {
    return fmt::format(" with {} threads{}{}", options.threads,
                       options.disabled_rewrites.empty() ? "" : " without rewrites",
                       options.storage == nullptr ? "" : " from a slow storage");
  }

  // Goes on after `outcome` to the end; one time in three it is saved again, at once, and a few elements later, each
  // run in another way.
  std::string resumed(const Saving& saving, Outcome outcome, std::string state, std::string how) {
    const int num_runs = draw() % 3 == 0 ? 3 : 1;
    for (int i = 0; i < num_runs; ++i) {
      if (state.size() > most_state_bytes()) return how + fmt::format("the state has {} bytes", state.size());
      const RunOptions options = some_options(saving.errors_shown);
      const WorkerLimit workers(options.threads);
      how += fmt::format("resumed after {} elements{}; ", outcome.elements.size(), described(options));
      Pipeline pipeline = resume(some_dataset(saving), options.start_options(), state);
      if (i == 1 && save(pipeline) != state) return how + "saved at once, the state is another";
      // The place of an error that was thrown is before it: going on there gives it again.
      outcome.error_code.clear();
      outcome.error.clear();
      const bool is_last = i + 1 == num_runs;
      take_elements(pipeline, outcome,
                    is_last ? saving.limit : std::min(saving.limit, outcome.elements.size() + draw() % 4));
      if (!is_last) state = save(pipeline);
    }
    const std::string wrong = difference(saving.expected, outcome, true);
    return wrong.empty() ? "" : how + wrong;
  }

  // 4 KiB, 64 B for each shard that can be open, and what the many operators of the largest graphs are digested to.
  size_t most_state_bytes() const {
    constexpr size_t kOperators = 10;
    const size_t num_operators = twin_.operators().size();
    return 4096 + 64 * 16 + 300 * (std::max(num_operators, kOperators) - kOperators);
  }

  const MakeTwin& make_;
  const CheckOptions options_;
  const TwinDataset twin_;
  const size_t limit_;
  const CounterRng rng_;
  uint64_t num_draws_ = 0;
  Outcome first_;
};

}  // namespace

std::string broken_promise(const MakeTwin& make, const CheckOptions& options) {
  return Checker(make, options).first_broken();
}

std::vector<size_t> some_places(size_t last, size_t most, uint64_t seed) {
  std::vector<size_t> places;
  if (last < most) {
    for (size_t place = 0; place <= last; ++place) places.push_back(place);
    return places;
  }
  if (most > 2) places = {0, last};
  const CounterRng rng(seed, operator_id("places"));
  for (uint64_t i = 0; places.size() < (most + 1) / 2; ++i) {
    const auto place = static_cast<size_t>(uniform_below(rng.bits(i), uint64_t{last} + 1));
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  return places;
}

}  // namespace millrace::test
