#include "trainer/step_graph.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_arena.h>

#include "formats/error.h"
#include "pipeline/tsan.h"
#include "trainer/all_reduce.h"
#include "trainer/bucket_countdown.h"
#include "trainer/distributor.h"
#include "trainer/name_pattern.h"
#include "trainer/not_finite.h"
#include "trainer/step_watchdog.h"

namespace millrace {
namespace {

namespace flow = oneapi::tbb::flow;
using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// Of a gradient that optimizers can square in float32, which ends at 3.4e38: a second moment that is infinite stays so,
// and ends the training of its weight without a word.
constexpr double kLargestNorm = 1e18;

// For messages: steps as progress reports count them, from 1; batches from 0, as streams do.
std::string step_name(int64_t step, int64_t first_batch, int64_t last_batch) {
  if (first_batch == last_batch) return fmt::format("step {} (batch {})", step + 1, last_batch);
  return fmt::format("step {} (batches {} to {})", step + 1, first_batch, last_batch);
}

// The error of a replica with its place in front; the kind of error stays.
Error placed(int replica, const std::string& place, Error error) {
  error.message = fmt::format("replica {}, {}: {}", replica, place, error.message);
  return error;
}

}  // namespace

TrainedState::TrainedState(const ParameterLayout& layout, const Optimizer& optimizer, const std::string& frozen)
    : trainable(layout.parameters().size(), 1), weights(layout.size()) {
  for (size_t slot = 0; slot < optimizer.slot_names().size(); ++slot) slots.emplace_back(layout.size());
  if (frozen.empty()) return;
  const NamePattern pattern("frozen", frozen);
  for (size_t id = 0; id < trainable.size(); ++id) trainable[id] = pattern.matches(layout.parameters()[id]) ? 0 : 1;
  pattern.need_match(std::ranges::count(trainable, 0) > 0);
  if (std::ranges::count(trainable, 1) == 0) pattern.refuse("matches every parameter; nothing is left to train");
}

int64_t TrainedState::num_trained(const ParameterLayout& layout) const {
  int64_t count = 0;
  for (size_t id = 0; id < trainable.size(); ++id) {
    if (trainable[id] != 0) count += layout.parameters()[id].size;
  }
  return count;
}

nanoseconds BatchTimeline::backward_end() const {
  nanoseconds end{0};
  for (const ReplicaTime& replica : replicas) end = std::max(end, replica.end);
  return end;
}

int BatchTimeline::reduced_during_backward() const {
  return static_cast<int>(
      std::ranges::count_if(reductions, [end = backward_end()](const TimeSpan& span) { return span.end < end; }));
}

void StepPhases::add(const StepPhases& other) {
  forward += other.forward;
  backward += other.backward;
  reduce += other.reduce;
  optimizer += other.optimizer;
}

class StepGraph::Impl {
 public:
  Impl(const Model& model, const Optimizer& optimizer, TrainedState& state, StepGraphOptions options)
      : optimizer_(optimizer),
        state_(state),
        options_(std::move(options)),
        layout_(model.layout()),
        buckets_(layout_.buckets_of([&state](int id) { return state.trainable[static_cast<size_t>(id)] != 0; })),
        num_buckets_(static_cast<int>(buckets_.size())),
        followed_(losses_of(buckets_)),
        num_losses_(followed_.size()),
        buckets_of_parameters_(layout_, buckets_),
        whole_replicas_(options_.normalization.divides_replicas() ||
                        (options_.clipping && options_.clipping->per_replica)),
        distributor_(options_.replicas),
        all_reduce_(layout_.size(), buckets_, options_.replicas),
        workers_(options_.make_worker ? options_.make_worker : [&model] { return std::make_unique<CpuWorker>(model); }),
        arena_(thread_count(options_.threads), 1),
        watchdog_(options_.watchdog, options_.on_stall, options_.replicas, layout_, buckets_),
        updates_of_losses_(num_losses_),
        results_(static_cast<size_t>(options_.replicas)),
        predictions_(static_cast<size_t>(options_.replicas)),
        errors_(static_cast<size_t>(options_.replicas)),
        squares_(static_cast<size_t>(num_buckets_)),
        layer_squares_(static_cast<size_t>(num_buckets_)),
        whole_layers_(layout_.parameters().size()) {
    if (num_buckets_ == 0) throw ErrorException(ErrorCode::kInvalidArgument, "the model has no parameters");
    if (options_.clipping && !(options_.clipping->norm > 0)) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("clipping to a norm of {}; more than 0 is needed", options_.clipping->norm));
    }
    if (!(options_.normalization.scale > 0)) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          fmt::format("normalization has a scale of {}; more than 0 is needed", options_.normalization.scale));
    }
    for (const Bucket& bucket : buckets_) ranges_.push_back(ranges_of(layout_, bucket));
    if (std::ranges::count(state.trainable, 0) > 0) {
      for (size_t id = 0; id < state.trainable.size(); ++id) {
        if (state.trainable[id] != 0) trainable_.push_back(static_cast<int>(id));
      }
    }
    for (const FlatBuffer& slot : state_.slots) slot_data_.push_back(const_cast<float*>(slot.data()));
    // A graph belongs to the arena in which it is made.
    arena_.execute([this] { graph_.emplace(*this); });
  }

  ~Impl() {
    arena_.execute([this] { graph_.reset(); });
  }

  StepReport train(const BatchView& batch, const StepNumbers& numbers, double learning_rate) {
    report_ = StepReport{};
    learning_rate_ = learning_rate;
    run_batch(batch, numbers, /*updates=*/true);
    return finished_report(batch_time_.backward_end());
  }

  void accumulate(const BatchView& batch, const StepNumbers& numbers) {
    if (accumulated_.data() == nullptr) accumulated_ = FlatBuffer(layout_.size());
    run_batch(batch, numbers, /*updates=*/false);
    or_discard([this] { add_results(); });
    if (num_accumulated_++ == 0) first_batch_ = numbers.batch;
    end_batch(now());
  }

  StepReport update(const StepNumbers& numbers, double learning_rate) {
    if (num_accumulated_ == 0) throw ErrorException(ErrorCode::kInvalidArgument, "an update without a batch");
    report_ = StepReport{};
    learning_rate_ = learning_rate;
    numbers_ = numbers;
    batches_ = num_accumulated_;
    gradients_ = accumulated_.data();
    // The replicas have been added to the sums already.
    std::fill(results_.begin(), results_.end(), StepResult{});
    watchdog_.step_begins(step_place(), 0);
    run([this] {
      for (int bucket = 0; bucket < num_buckets_; ++bucket) take_squares(bucket);
      put(graph_->decision, 0);
    });
    watchdog_.step_ends();
    or_discard([this] { throw_update_error(); });
    return finished_report({});
  }

  void discard() {
    num_accumulated_ = 0;
    total_ = {};
    phases_ = {};
    not_finite_.clear();
    batch_times_.clear();
    working_ = {};
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

  int threads_seen() const {
    const std::lock_guard lock(threads_mutex_);
    return static_cast<int>(threads_.size());
  }

  int peak_gradient_buffers() const { return all_reduce_.peak_buffers(); }

 private:
  enum class Pass { kTrain, kEvaluate, kPredict };

  // The nodes. Messages are numbers; what they stand for lies in the Impl. No body throws, so the graph is never
  // cancelled and needs no reset.
  struct Graph {
    // The only way in which a body is made: the function and what the Impl holds are handed over at its begin and end.
    template <void (Impl::*kBody)(int) noexcept>
    static auto body(Impl& impl) {
      return HandedOver([&impl](int message) noexcept {
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

  static std::vector<uint8_t> losses_of(const std::vector<Bucket>& buckets) {
    std::vector<uint8_t> followed;
    for (const Bucket& bucket : buckets) {
      const auto loss = static_cast<size_t>(bucket.loss);
      followed.resize(std::max(followed.size(), loss + 1));
      followed[loss] = 1;
    }
    return followed;
  }

  static int thread_count(int threads) {
    if (threads < 0) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} threads; at least 1 is needed", threads));
    }
    if (threads > 0) return threads;
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }

  // Where a replica's error occurred.
  std::string place() const {
    if (pass_ == Pass::kPredict) return "in a prediction";
    if (pass_ == Pass::kEvaluate) return "in an evaluation";
    return step_name(numbers_.step, numbers_.batch, numbers_.batch);
  }

  // Of the step with all its batches.
  std::string step_place() const {
    return step_name(numbers_.step, num_accumulated_ > 0 ? first_batch_ : numbers_.batch, numbers_.batch);
  }

  nanoseconds now() const { return Clock::now() - begin_; }

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

  void put_replicas(int active) {
    for (int i = 0; i < active; ++i) put(graph_->replica, i);
  }

  // Sends the first messages and waits until all that comes of them is done.
  template <typename PutFirst>
  void run(const PutFirst& put_first) {
    begin_ = Clock::now();
    arena_.execute([&] {
      put_first();
      graph_->graph.wait_for_all();
    });
    handoff_acquire(this);
  }

  int run_forward(const BatchView& batch, Pass pass) {
    pass_ = pass;
    const int active = start(batch);
    run([this, active] { put_replicas(active); });
    watchdog_.step_ends();
    throw_first_error();
    return active;
  }

  // Forward and backward over a batch, its reduction, and, if it is the last of its step, decision and updates.
  void run_batch(const BatchView& batch, const StepNumbers& numbers, bool updates) {
    numbers_ = numbers;
    pass_ = Pass::kTrain;
    updates_ = updates;
    batches_ = num_accumulated_ + 1;
    const int active = start(batch);
    batch_time_.replicas.assign(static_cast<size_t>(options_.replicas), {});
    batch_time_.reductions.assign(static_cast<size_t>(num_buckets_), {});
    all_reduce_.begin(active);
    gradients_ = nullptr;  // not known before replica 0 has its buffer
    // Without an update there is nothing to decide: the count stays above 0.
    undecided_.store(num_buckets_ + active + (updates ? 0 : 1), std::memory_order_relaxed);
    run([this, active] { put_replicas(active); });
    watchdog_.step_ends();
    all_reduce_.end();
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

  // What a batch took, `time` on the clock.
  void end_batch(nanoseconds time) {
    nanoseconds forward{0};
    nanoseconds backward{0};
    nanoseconds reduce{0};
    for (const ReplicaTime& replica : batch_time_.replicas) {
      forward += replica.backward - replica.begin;
      backward += replica.end - replica.backward - replica.reducing;
      reduce += replica.reducing;
    }
    const nanoseconds last_end = batch_time_.backward_end();
    const double all = std::max(1e-12, seconds(forward + backward + reduce));
    const double wall = seconds(last_end);
    phases_.add({.forward = wall * seconds(forward) / all,
                 .backward = wall * seconds(backward) / all,
                 .reduce = wall * seconds(reduce) / all,
                 .optimizer = seconds(time - last_end)});
    working_ += time;
    batch_time_.began = begin_;
    batch_time_.ended = begin_ + time;
    batch_times_.push_back(std::exchange(batch_time_, {}));
  }

  // `backward_end`: of the batch that came with the update; 0 when there was none.
  StepReport finished_report(nanoseconds backward_end) {
    const nanoseconds time = now();
    if (backward_end.count() > 0) {
      end_batch(time);
    } else {
      working_ += time;
      phases_.optimizer += seconds(time);
    }
    report_.timeline.began = begin_;
    report_.timeline.ended = begin_ + time;
    report_.timeline.total = working_;
    report_.timeline.after_backward = time - backward_end;
    report_.timeline.batches = std::move(batch_times_);
    report_.phases = phases_;
    discard();
    return std::move(report_);
  }

  void throw_first_error() {
    // Replicas start in order, so all below the first that failed have run: which error is reported is no accident.
    for (const std::optional<Error>& error : errors_) {
      if (error) throw ErrorException(*error);
    }
  }

  void throw_update_error() {
    if (update_error_) throw ErrorException(*std::exchange(update_error_, std::nullopt));
  }

  // What the decision or an update threw. To be called in a catch block.
  void keep_update_error() noexcept {
    Error error = current_exception_as_error();
    error.message = fmt::format("{}, its update: {}", step_place(), error.message);
    const std::lock_guard lock(update_error_mutex_);
    if (!update_error_) update_error_ = std::move(error);
  }

  bool update_failed() {
    const std::lock_guard lock(update_error_mutex_);
    return update_error_.has_value();
  }

  void replica_body(int /*message*/) noexcept {
    // In order, whichever message came first: the lower side of the reduction tree fills first, which keeps few buffers
    // live.
    const int replica = next_replica_.fetch_add(1, std::memory_order_relaxed);
    if (!failed_.load(std::memory_order_relaxed)) {
      try {
        const int thread = this_thread();
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
    const BatchView& rows = views_[index];
    std::unique_ptr<DeviceWorker> worker = workers_.take();
    if (pass_ == Pass::kTrain) {
      train_replica(replica, thread, rows, *worker);
    } else if (pass_ == Pass::kEvaluate) {
      results_[index] = worker->evaluate(rows, state_.weights.data());
    } else {
      predictions_[index] = worker->predict(rows, state_.weights.data());
      if (predictions_[index].rows != rows.rows()) {
        throw ErrorException(ErrorCode::kWrongShape,
                             fmt::format("the model predicted {} rows of {}", predictions_[index].rows, rows.rows()));
      }
    }
    workers_.put_back(std::move(worker));
  }

  void train_replica(int replica, int thread, const BatchView& rows, DeviceWorker& worker) {
    const auto index = static_cast<size_t>(replica);
    ReplicaTime& time = batch_time_.replicas[index];
    time.thread = thread;
    time.begin = now();
    const auto backward_begins = [&] {
      if (time.backward.count() == 0) time.backward = now();
      watchdog_.backward_begins(replica);
    };
    const auto bucket_done = [&](int bucket) {
      if (time.backward.count() == 0) time.backward = now();
      watchdog_.gradient_final(replica, buckets_[static_cast<size_t>(bucket)].parameters.back());
      // When a factor is to be known before replicas are added, the buckets wait until it is.
      if (!whole_replicas_) bucket_final(replica, bucket);
    };
    BucketCountdown countdown(layout_, buckets_of_parameters_, bucket_done, backward_begins);
    const std::span<float> gradients = all_reduce_.take_buffer(replica);
    results_[index] = worker.train_step(
        rows, state_.weights.data(),
        {.seed = options_.seed,
         .batch = numbers_.batch,
         .replica = replica,
         .gradients = gradients,
         .activations = options_.activations,
         .loss_scale = numbers_.loss_scale,
         .trainable = trainable_.empty() ? std::nullopt : std::optional<std::span<const int>>(trainable_),
         .listener = &countdown});
    countdown.check_complete();
    if (results_[index].more_losses.size() + 1 < num_losses_) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("the model gave {} losses; its parameters follow {}",
                                       results_[index].more_losses.size() + 1, num_losses_));
    }
    if (whole_replicas_) {
      scale_replica(gradients, results_[index]);
      for (int bucket = 0; bucket < num_buckets_; ++bucket) bucket_final(replica, bucket);
    }
    all_reduce_.leave(replica);
    if (time.backward.count() == 0) time.backward = now();
    time.end = now();
    one_less_undecided();
  }

  // A replica's own mean, clipped on its own.
  void scale_replica(std::span<float> gradients, const StepResult& result) {
    for (size_t loss = 0; loss < num_losses_; ++loss) {
      const double weight = result.loss(static_cast<int>(loss)).weight;
      double factor = options_.normalization.replica_factor(weight);
      if (options_.clipping && options_.clipping->per_replica) {
        double squares = 0;
        for (const Bucket& bucket : buckets_) {
          if (static_cast<size_t>(bucket.loss) == loss) squares += sum_of_squares(part(gradients, bucket));
        }
        const double norm = weight == 0 ? 0 : std::sqrt(squares) / (weight * numbers_.loss_scale);
        // One that is not finite stays so, for the decision to find.
        if (std::isfinite(norm)) factor *= clip_scale(norm, options_.clipping->norm, options_.clipping->form);
      }
      if (factor == 1) continue;
      for (const Bucket& bucket : buckets_) {
        if (static_cast<size_t>(bucket.loss) != loss) continue;
        for (float& gradient : part(gradients, bucket)) gradient *= static_cast<float>(factor);
      }
    }
  }

  static std::span<float> part(std::span<float> buffer, const Bucket& bucket) {
    return buffer.subspan(static_cast<size_t>(bucket.begin), static_cast<size_t>(bucket.end - bucket.begin));
  }

  void bucket_final(int replica, int bucket) {
    ReplicaTime& time = batch_time_.replicas[static_cast<size_t>(replica)];
    const auto begin = now();
    const bool last = all_reduce_.arrive(replica, bucket);
    if (last) bucket_reduced(bucket);
    const auto end = now();
    time.reducing += end - begin;
    if (!last) return;
    batch_time_.reductions[static_cast<size_t>(bucket)] = {.begin = begin, .end = end, .thread = time.thread};
    if (updates_) one_less_undecided();
  }

  void bucket_reduced(int bucket) {
    const Bucket& range = buckets_[static_cast<size_t>(bucket)];
    float* sum = all_reduce_.result();
    float* so_far = accumulated_.data();
    if (!updates_) {
      if (num_accumulated_ == 0) {
        std::copy(sum + range.begin, sum + range.end, so_far + range.begin);
      } else {
        for (int64_t i = range.begin; i < range.end; ++i) so_far[i] += sum[i];
      }
      return;
    }
    if (num_accumulated_ > 0) {
      for (int64_t i = range.begin; i < range.end; ++i) sum[i] = so_far[i] + sum[i];
    }
    take_squares(bucket);
  }

  void take_squares(int bucket) {
    const auto index = static_cast<size_t>(bucket);
    squares_[index] = sum_of_squares(part({gradients(), static_cast<size_t>(layout_.size())}, buckets_[index]));
  }

  // What the update is made of: the sums over all replicas of all batches.
  float* gradients() { return gradients_ != nullptr ? gradients_ : all_reduce_.result(); }

  void one_less_undecided() {
    if (undecided_.fetch_sub(1, std::memory_order_acq_rel) == 1) put(graph_->decision, 0);
  }

  void decision_body(int /*message*/) noexcept {
    report_.timeline.decision = {.begin = now(), .thread = this_thread()};
    watchdog_.decision_begins();
    try {
      decide();
    } catch (...) {
      keep_update_error();
      report_.updated = false;
    }
    report_.timeline.decision.end = now();
    watchdog_.decision_ends();
    if (!report_.updated) return;
    report_.timeline.updates.resize(static_cast<size_t>(num_buckets_));
    undirected_.store(num_buckets_, std::memory_order_relaxed);
    for (int bucket = 0; bucket < num_buckets_; ++bucket) {
      put(optimizer_.layerwise() ? graph_->direction : graph_->update, bucket);
    }
  }

  // The replicas' losses to those of the batches before.
  void add_results() {
    for (size_t replica = 0; replica < results_.size(); ++replica) {
      const StepResult& result = results_[replica];
      total_.add(result);
      for (size_t loss = 0; loss < num_losses_ && not_finite_.empty(); ++loss) {
        if (followed_[loss] == 0) continue;
        const LossSum sum = result.loss(static_cast<int>(loss));
        if (std::isfinite(sum.sum) && std::isfinite(sum.weight)) continue;
        const bool one_of_many = num_accumulated_ > 0 || !updates_;
        not_finite_ = fmt::format(
            "{} of replica {}{} is {} (weight {})", loss == 0 ? std::string("the loss") : fmt::format("loss {}", loss),
            replica, one_of_many ? fmt::format(" in batch {}", numbers_.batch) : std::string(), sum.sum, sum.weight);
      }
    }
  }

  void decide() {
    add_results();
    report_.result = total_;
    std::string not_finite = not_finite_;
    std::vector<double> squares(num_losses_);
    for (size_t bucket = 0; bucket < squares_.size(); ++bucket) {
      squares[static_cast<size_t>(buckets_[bucket].loss)] += squares_[bucket];
      if (not_finite.empty() && !std::isfinite(squares_[bucket])) {
        not_finite = fmt::format("a gradient of {} is not finite", parameter_not_finite(bucket));
      }
    }
    if (report_.result.weight != 0) report_.loss = report_.result.sum_loss / report_.result.weight;
    double norms = 0;
    for (size_t loss = 0; loss < num_losses_; ++loss) {
      const double weight = total_.loss(static_cast<int>(loss)).weight;
      const double factor =
          options_.normalization.sum_factor(weight, options_.replicas, batches_) / numbers_.loss_scale;
      const double norm = std::sqrt(squares[loss]) * std::abs(factor);
      double clipping = 1;
      if (options_.clipping && !options_.clipping->per_replica) {
        clipping = clip_scale(norm, options_.clipping->norm, options_.clipping->form);
      }
      if (loss == 0) report_.clip_scale = clipping;
      norms = loss == 0 ? norm : std::hypot(norms, norm);
      if (not_finite.empty() && norm * clipping > kLargestNorm) {
        not_finite = fmt::format("the norm of the gradient is {:.3g}; its square would not be finite", norm);
      }
      updates_of_losses_[loss] = {.number = numbers_.update,
                                  .learning_rate = learning_rate_,
                                  .gradient_scale = static_cast<float>(factor * clipping)};
    }
    report_.gradient_norm = norms;
    report_.learning_rates = optimizer_.learning_rates(updates_of_losses_[0]);
    report_.updated = not_finite.empty();
    if (report_.updated) return;
    report_.clip_scale = 1;
    report_.skip_reason = fmt::format("{}: {}; the update was skipped", step_place(), not_finite);
  }

  std::string parameter_not_finite(size_t bucket) {
    for (const UpdateRange& range : ranges_[bucket]) {
      const std::span<const float> values(gradients() + range.begin, gradients() + range.end);
      if (first_not_finite(std::as_bytes(values))) {
        return fmt::format("'{}'", layout_.parameters()[static_cast<size_t>(range.parameter)].name);
      }
    }
    return "a parameter";
  }

  UpdateBuffers update_buffers() {
    return {.weights = state_.weights.data(), .gradients = gradients(), .slots = slot_data_};
  }

  const UpdateStep& update_of(int bucket) const {
    return updates_of_losses_[static_cast<size_t>(buckets_[static_cast<size_t>(bucket)].loss)];
  }

  void direction_body(int bucket) noexcept {
    const auto index = static_cast<size_t>(bucket);
    watchdog_.update_begins(bucket);
    layer_squares_[index].clear();
    try {
      for (const UpdateRange& range : ranges_[index]) {
        layer_squares_[index].push_back(optimizer_.direction(range, update_of(bucket), update_buffers()));
      }
    } catch (...) {
      keep_update_error();
    }
    watchdog_.update_waits(bucket);  // for the other directions
    if (undirected_.fetch_sub(1, std::memory_order_acq_rel) == 1 && !update_failed()) {
      std::fill(whole_layers_.begin(), whole_layers_.end(), LayerSquares{});
      for (size_t b = 0; b < ranges_.size(); ++b) {
        for (size_t i = 0; i < ranges_[b].size(); ++i) {
          LayerSquares& whole = whole_layers_[static_cast<size_t>(ranges_[b][i].parameter)];
          whole.weights += layer_squares_[b][i].weights;
          whole.direction += layer_squares_[b][i].direction;
        }
      }
      for (int b = 0; b < num_buckets_; ++b) put(graph_->update, b);
    }
  }

  void update_body(int bucket) noexcept {
    const auto index = static_cast<size_t>(bucket);
    report_.timeline.updates[index] = {.begin = now(), .thread = this_thread()};
    watchdog_.update_begins(bucket);
    try {
      for (const UpdateRange& range : ranges_[index]) {
        if (optimizer_.layerwise()) {
          optimizer_.apply(range, update_of(bucket), update_buffers(),
                           whole_layers_[static_cast<size_t>(range.parameter)]);
        } else {
          optimizer_.update(range, update_of(bucket), update_buffers());
        }
      }
    } catch (...) {
      keep_update_error();
    }
    watchdog_.update_ends(bucket);
    report_.timeline.updates[index].end = now();
  }

  // The number of this thread, from 0 in the order in which they came.
  int this_thread() {
    const std::lock_guard lock(threads_mutex_);
    return threads_.try_emplace(std::this_thread::get_id(), static_cast<int>(threads_.size())).first->second;
  }

  const Optimizer& optimizer_;
  TrainedState& state_;
  const StepGraphOptions options_;
  const ParameterLayout& layout_;
  const std::vector<Bucket> buckets_;
  const int num_buckets_;
  const std::vector<uint8_t> followed_;  // by loss: 1 when a parameter that is trained follows it
  const size_t num_losses_;              // up to the last of these
  const BucketsOfParameters buckets_of_parameters_;
  const bool whole_replicas_;  // buckets are added when their replica has ended
  const Distributor distributor_;
  AllReduce<float> all_reduce_;
  WorkerPool workers_;
  oneapi::tbb::task_arena arena_;
  StepWatchdog watchdog_;
  std::vector<float*> slot_data_;
  std::vector<std::vector<UpdateRange>> ranges_;  // by bucket
  std::vector<int> trainable_;                    // empty: all

  // Of the batches accumulated for the next update.
  FlatBuffer accumulated_;  // made by the first
  int64_t num_accumulated_ = 0;
  int64_t first_batch_ = 0;
  StepResult total_;
  StepPhases phases_;
  std::string not_finite_;  // the first loss that was not
  std::vector<BatchTimeline> batch_times_;
  nanoseconds working_{0};  // spent on them

  // Of the batch and the step that run.
  Pass pass_ = Pass::kTrain;
  bool updates_ = true;  // the batch is the last of its step
  StepNumbers numbers_;
  int64_t batches_ = 1;         // of the step, up to this one
  float* gradients_ = nullptr;  // the accumulated ones when no batch is the last; else null
  double learning_rate_ = 0;
  std::vector<UpdateStep> updates_of_losses_;
  Clock::time_point begin_;
  std::vector<BatchView> views_;
  std::vector<StepResult> results_;
  std::vector<Predictions> predictions_;
  std::vector<std::optional<Error>> errors_;
  std::vector<double> squares_;                           // by bucket
  std::vector<std::vector<LayerSquares>> layer_squares_;  // by bucket and range
  std::vector<LayerSquares> whole_layers_;                // by parameter
  StepReport report_;
  BatchTimeline batch_time_;
  std::atomic<int> next_replica_{0};
  std::atomic<bool> failed_{false};
  std::atomic<int> undecided_{0};   // buckets not reduced and replicas not ended
  std::atomic<int> undirected_{0};  // buckets without a direction
  std::mutex update_error_mutex_;
  std::optional<Error> update_error_;

  mutable std::mutex threads_mutex_;
  std::map<std::thread::id, int> threads_;

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
