#include "millrace/trainer/step/step_graph.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_arena.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/run/tbb_handoff.h"
#include "millrace/pipeline/run/worker_arena.h"
#include "millrace/trainer/step/bucket_updates.h"
#include "millrace/trainer/step/distributor.h"
#include "millrace/trainer/step/gradient_sums.h"
#include "millrace/trainer/step/replica_runner.h"
#include "millrace/trainer/step/step_watchdog.h"
#include "millrace/trainer/step/update_decision.h"

namespace millrace {
namespace {

namespace flow = oneapi::tbb::flow;

// The error of a replica with its place in front; the kind of error stays.
Error placed(int replica, const std::string& place, Error error) {
  error.message = fmt::format("replica {}, {}: {}", replica, place, error.message);
  return error;
}

int thread_count(int threads) {
  if (threads > 0) return threads;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

class StepGraph::Impl {
 public:
  Impl(const Model& model, const Optimizer& optimizer, TrainedState& state, StepGraphOptions options)
      : optimizer_(optimizer),
        options_((options.check(), std::move(options))),
        layout_(model.layout()),
        buckets_(layout_.buckets_of([&state](int id) { return state.trainable[static_cast<size_t>(id)] != 0; })),
        num_buckets_(static_cast<int>(buckets_.size())),
        distributor_(options_.replicas),
        sums_(layout_, buckets_, options_.replicas),
        arena_(worker_arena(thread_count(options_.threads), /*reserved=*/1)),
        watchdog_(options_.watchdog, options_.on_stall, options_.replicas, layout_, buckets_),
        decision_(layout_, buckets_, options_),
        runner_(model, state, buckets_, options_, decision_, watchdog_),
        updates_(optimizer, state, layout_, buckets_, watchdog_),
        results_(static_cast<size_t>(options_.replicas)),
        predictions_(static_cast<size_t>(options_.replicas)),
        errors_(static_cast<size_t>(options_.replicas)) {
    if (num_buckets_ == 0) throw ErrorException(ErrorCode::kInvalidArgument, "the model has no parameters");
    initialize(arena_);
    // A graph belongs to the arena in which it is made.
    arena_.execute([this] { graph_.emplace(*this); });
  }

  ~Impl() {
    arena_.execute([this] { graph_.reset(); });
  }

  StepReport train(const BatchView& batch, const StepNumbers& numbers, double learning_rate) {
    report_ = StepReport{};
    learning_rate_ = learning_rate;
    run_batch(batch, numbers, /*last=*/true);
    return finished_report();
  }

  void accumulate(const BatchView& batch, const StepNumbers& numbers) {
    run_batch(batch, numbers, /*last=*/false);
    or_discard([&] { decision_.add(results_, numbers.batch, /*more_follow=*/true); });
    if (sums_.num_accumulated() == 0) first_batch_ = numbers.batch;
    sums_.keep_batch();
    times_.end_batch();
  }

  StepReport update(const StepNumbers& numbers, double learning_rate) {
    if (sums_.num_accumulated() == 0) throw ErrorException(ErrorCode::kInvalidArgument, "an update without a batch");
    report_ = StepReport{};
    learning_rate_ = learning_rate;
    numbers_ = numbers;
    watchdog_.step_begins(place_of_step(), 0);
    times_.begin();
    run([this] {
      sums_.begin_update();
      put(graph_->decision, 0);
    });
    watchdog_.step_ends();
    or_discard([this] { throw_update_error(); });
    return finished_report();
  }

  void discard() {
    sums_.discard();
    decision_.discard();
    times_.discard();
  }

  StepResult evaluate(const BatchView& batch) {
    run_forward(batch, Pass::kEvaluate);
    StepResult total;
    for (const StepResult& result : results_) total.add(result);
    return total;
  }

  Predictions predict(const BatchView& batch) {
    const int active = run_forward(batch, Pass::kPredict);
    Predictions all;
    for (int replica = 0; replica < active; ++replica) {
      all.append(std::exchange(predictions_[static_cast<size_t>(replica)], {}));
    }
    return all;
  }

  std::span<const Bucket> buckets() const { return buckets_; }

  int threads_seen() const { return threads_.count(); }

  int peak_gradient_buffers() const { return sums_.peak_buffers(); }

 private:
  enum class Pass { kTrain, kEvaluate, kPredict };

  // The nodes. Messages are numbers; what they stand for lies in the Impl. No body throws, so the graph is never
  // cancelled and needs no reset.
  struct Graph {
    // The only way in which a body is made: the function and what the Impl holds are handed over at its begin and end.
    template <void (Impl::*kBody)(int) noexcept>
    static auto body(Impl& impl) {
      return TbbHandoff([&impl](int message) noexcept {
        handoff_acquire(&impl);
        (impl.*kBody)(message);
        handoff_release(&impl);
        return flow::continue_msg();
      });
    }

    explicit Graph(Impl& impl)
        : replica(graph, flow::unlimited, body<&Impl::replica_body>(impl)),
          decision(graph, flow::unlimited, body<&Impl::decision_body>(impl)),
          direction(graph, flow::unlimited, body<&Impl::direction_body>(impl)),
          update(graph, flow::unlimited, body<&Impl::update_body>(impl)) {}

    flow::graph graph;
    flow::function_node<int, flow::continue_msg> replica;    // one message per replica
    flow::function_node<int, flow::continue_msg> decision;   // one message per step
    flow::function_node<int, flow::continue_msg> direction;  // one per bucket, for layer-wise rules
    flow::function_node<int, flow::continue_msg> update;     // one per bucket
  };

  // Where a replica's error occurred.
  std::string place() const {
    if (pass_ == Pass::kPredict) return "in a prediction";
    if (pass_ == Pass::kEvaluate) return "in an evaluation";
    return step_place(numbers_.step, numbers_.batch, numbers_.batch);
  }

  // Of the step with all its batches.
  std::string place_of_step() const {
    return step_place(numbers_.step, sums_.num_accumulated() > 0 ? first_batch_ : numbers_.batch, numbers_.batch);
  }

  // Splits the batch; returns how many replicas have rows.
  int start(const BatchView& batch) {
    if (batch.rows() < 1) throw ErrorException(ErrorCode::kInvalidArgument, "a batch without rows");
    views_ = distributor_.split(batch);
    std::fill(results_.begin(), results_.end(), StepResult{});
    std::fill(errors_.begin(), errors_.end(), std::nullopt);
    failed_.store(false, std::memory_order_relaxed);
    next_replica_.store(0, std::memory_order_relaxed);
    const int active = static_cast<int>(std::min<int64_t>(batch.rows(), options_.replicas));
    watchdog_.step_begins(place(), active);
    return active;
  }

  // The only way in which a message is sent.
  void put(flow::receiver<int>& node, int message) {
    handoff_release(this);
    node.try_put(message);
  }

  void run_replicas(int active) {
    run([this, active] {
      for (int i = 0; i < active; ++i) put(graph_->replica, i);
    });
  }

  // Sends the first messages and waits until all that comes of them is done.
  template <typename PutFirst>
  void run(const PutFirst& put_first) {
    arena_.execute([&] {
      put_first();
      graph_->graph.wait_for_all();
    });
    handoff_acquire(this);
  }

  int run_forward(const BatchView& batch, Pass pass) {
    pass_ = pass;
    const int active = start(batch);
    run_replicas(active);
    watchdog_.step_ends();
    throw_first_error();
    return active;
  }

  // Forward and backward over a batch, its reduction, and, if it is the last of its step, decision and updates.
  void run_batch(const BatchView& batch, const StepNumbers& numbers, bool last) {
    numbers_ = numbers;
    pass_ = Pass::kTrain;
    last_ = last;
    const int active = start(batch);
    sums_.begin_batch(active, last);
    // Without an update there is nothing to decide: the count stays above 0.
    undecided_.store(num_buckets_ + active + (last ? 0 : 1), std::memory_order_relaxed);
    times_.begin_batch(options_.replicas, num_buckets_);
    run_replicas(active);
    watchdog_.step_ends();
    sums_.end_batch();
    or_discard([this] {
      throw_first_error();
      throw_update_error();
    });
  }

  // What throws gives up what has been accumulated.
  template <typename Part>
  void or_discard(const Part& part) {
    try {
      part();
    } catch (...) {
      discard();
      throw;
    }
  }

  StepReport finished_report() {
    times_.finish(/*with_batch=*/!sums_.without_batch(), report_.timeline, report_.phases);
    discard();
    return std::move(report_);
  }

  void throw_first_error() {
    // Replicas start in order, so all below the first that failed have run: which error is reported is no accident.
    for (const std::optional<Error>& error : errors_) {
      if (error) throw ErrorException(*error);
    }
  }

  // What the decision or an update threw.
  void throw_update_error() {
    std::optional<Error> error = updates_.take_error();
    if (!error) return;
    error->message = fmt::format("{}, its update: {}", place_of_step(), error->message);
    throw ErrorException(*std::move(error));
  }

  void replica_body(int /*message*/) noexcept {
    // In order, whichever message came first: the lower side of the reduction tree fills first, which keeps few buffers
    // live.
    const int replica = next_replica_.fetch_add(1, std::memory_order_relaxed);
    if (!failed_.load(std::memory_order_relaxed)) {
      try {
        const int thread = threads_.number();
        watchdog_.replica_begins(replica);
        // While this replica waits for work that it started itself, its thread must not enter another replica.
        oneapi::tbb::this_task_arena::isolate([&] { run_replica(replica, thread); });
      } catch (...) {
        errors_[static_cast<size_t>(replica)] = placed(replica, place(), current_exception_as_error());
        failed_.store(true, std::memory_order_relaxed);
      }
    }
    watchdog_.replica_ends(replica);
  }

  void run_replica(int replica, int thread) {
    const auto index = static_cast<size_t>(replica);
    switch (pass_) {
      case Pass::kTrain: train_replica(replica, thread); break;
      case Pass::kEvaluate: results_[index] = runner_.evaluate(views_[index]); break;
      case Pass::kPredict: predictions_[index] = runner_.predict(views_[index]); break;
    }
  }

  void train_replica(int replica, int thread) {
    const auto index = static_cast<size_t>(replica);
    ReplicaTime& time = times_.replica(replica);
    time.thread = thread;
    time.begin = times_.now();
    results_[index] = runner_.train(views_[index],
                                    {.replica = replica,
                                     .numbers = numbers_,
                                     .gradients = sums_.take_buffer(replica),
                                     .began = times_.began(),
                                     .bucket_final = [&](int bucket) { bucket_final(replica, bucket); }},
                                    time);
    sums_.leave(replica);
    if (time.backward.count() == 0) time.backward = times_.now();
    time.end = times_.now();
    one_less_undecided();
  }

  void bucket_final(int replica, int bucket) {
    ReplicaTime& time = times_.replica(replica);
    const auto begin = times_.now();
    const bool complete = sums_.arrive(replica, bucket);
    const auto end = times_.now();
    time.reducing += end - begin;
    if (!complete) return;
    times_.reduction(bucket) = {.begin = begin, .end = end, .thread = time.thread};
    if (last_) one_less_undecided();
  }

  void one_less_undecided() {
    if (undecided_.fetch_sub(1, std::memory_order_acq_rel) == 1) put(graph_->decision, 0);
  }

  void decision_body(int /*message*/) noexcept {
    times_.decision() = {.begin = times_.now(), .thread = threads_.number()};
    watchdog_.decision_begins();
    try {
      decide();
    } catch (...) {
      updates_.keep_error();
      report_.updated = false;
    }
    times_.decision().end = times_.now();
    watchdog_.decision_ends();
    if (!report_.updated) return;
    times_.begin_updates(num_buckets_);
    for (int bucket = 0; bucket < num_buckets_; ++bucket) {
      put(updates_.layerwise() ? graph_->direction : graph_->update, bucket);
    }
  }

  void decide() {
    // Without a batch that came with the update, the replicas of all of them have been added already.
    if (!sums_.without_batch()) decision_.add(results_, numbers_.batch, /*more_follow=*/false);
    DecidedUpdate decided = decision_.decide(numbers_, learning_rate_, sums_.squares(), sums_.sums());
    report_.result = std::move(decided.result);
    report_.loss = decided.loss;
    report_.gradient_norm = decided.gradient_norm;
    report_.clip_scale = decided.clip_scale;
    report_.learning_rates = optimizer_.learning_rates(decided.updates[0]);
    report_.updated = decided.not_finite.empty();
    if (!report_.updated) {
      report_.skip_reason = fmt::format("{}: {}; the update was skipped", place_of_step(), decided.not_finite);
    }
    updates_.begin(std::move(decided.updates), sums_.sums());
  }

  void direction_body(int bucket) noexcept {
    if (!updates_.find_direction(bucket)) return;
    for (int b = 0; b < num_buckets_; ++b) put(graph_->update, b);
  }

  void update_body(int bucket) noexcept {
    TimeSpan& time = times_.update(bucket);
    time = {.begin = times_.now(), .thread = threads_.number()};
    updates_.update(bucket);
    time.end = times_.now();
  }

  const Optimizer& optimizer_;
  const StepGraphOptions options_;
  const ParameterLayout& layout_;
  const std::vector<Bucket> buckets_;
  const int num_buckets_;
  const Distributor distributor_;
  GradientSums sums_;
  oneapi::tbb::task_arena arena_;
  StepWatchdog watchdog_;
  UpdateDecision decision_;
  ReplicaRunner runner_;
  BucketUpdates updates_;

  StepTimes times_;
  ThreadNumbers threads_;
  int64_t first_batch_ = 0;  // of those accumulated for the next update

  // Of the batch and the step that run.
  Pass pass_ = Pass::kTrain;
  bool last_ = true;  // the batch is the last of its step
  StepNumbers numbers_;
  double learning_rate_ = 0;
  std::vector<BatchView> views_;
  std::vector<StepResult> results_;
  std::vector<Predictions> predictions_;
  std::vector<std::optional<Error>> errors_;
  StepReport report_;
  std::atomic<int> next_replica_{0};
  std::atomic<bool> failed_{false};
  std::atomic<int> undecided_{0};  // buckets not reduced and replicas not ended

  std::optional<Graph> graph_;  // last: it goes before what its bodies use
};

StepGraph::StepGraph(const Model& model, const Optimizer& optimizer, TrainedState& state, StepGraphOptions options)
    : impl_(std::make_unique<Impl>(model, optimizer, state, std::move(options))) {}

StepGraph::~StepGraph() = default;

StepReport StepGraph::train(const BatchView& batch, const StepNumbers& numbers, double learning_rate) {
  return impl_->train(batch, numbers, learning_rate);
}

void StepGraph::accumulate(const BatchView& batch, const StepNumbers& numbers) { impl_->accumulate(batch, numbers); }

StepReport StepGraph::update(const StepNumbers& numbers, double learning_rate) {
  return impl_->update(numbers, learning_rate);
}

void StepGraph::discard() { impl_->discard(); }

StepResult StepGraph::evaluate(const BatchView& batch) { return impl_->evaluate(batch); }

Predictions StepGraph::predict(const BatchView& batch) { return impl_->predict(batch); }

std::span<const Bucket> StepGraph::buckets() const { return impl_->buckets(); }

int StepGraph::threads_seen() const { return impl_->threads_seen(); }

int StepGraph::peak_gradient_buffers() const { return impl_->peak_gradient_buffers(); }

}  // namespace millrace
