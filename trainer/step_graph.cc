#include "trainer/step_graph.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_arena.h>

#include "formats/error.h"
#include "pipeline/tsan.h"
#include "trainer/all_reduce.h"
#include "trainer/distributor.h"

namespace millrace {
namespace {

namespace flow = oneapi::tbb::flow;
using Clock = std::chrono::steady_clock;

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

Error caught_error() {
  try {
    throw;
  } catch (const ErrorException& error) {
    return error.error();
  } catch (const std::exception& error) {
    return {.code = ErrorCode::kUserFunction, .message = error.what()};
  } catch (...) {
    return {.code = ErrorCode::kUserFunction, .message = "an exception that is no std::exception"};
  }
}

}  // namespace

TrainedState::TrainedState(const ParameterLayout& layout, const Optimizer& optimizer) : weights(layout.size()) {
  for (size_t slot = 0; slot < optimizer.slot_names().size(); ++slot) slots.emplace_back(layout.size());
}

int StepTimeline::reduced_during_backward() const {
  std::chrono::nanoseconds backward_end{0};
  for (const TimeSpan& replica : replicas) backward_end = std::max(backward_end, replica.end);
  return static_cast<int>(std::count_if(reductions.begin(), reductions.end(),
                                        [&](const TimeSpan& span) { return span.end < backward_end; }));
}

class StepGraph::Impl {
 public:
  Impl(const Model& model, const Optimizer& optimizer, TrainedState& state, StepGraphOptions options,
       WorkerPool::Make make_worker)
      : optimizer_(optimizer),
        state_(state),
        options_(options),
        layout_(model.layout()),
        num_buckets_(static_cast<int>(layout_.buckets().size())),
        distributor_(options.replicas),
        all_reduce_(layout_, options.replicas),
        workers_(make_worker ? std::move(make_worker) : [&model] { return std::make_unique<CpuWorker>(model); }),
        arena_(thread_count(options.threads), 1),
        results_(static_cast<size_t>(options.replicas)),
        errors_(static_cast<size_t>(options.replicas)),
        squares_(static_cast<size_t>(num_buckets_)),
        layer_squares_(static_cast<size_t>(num_buckets_)),
        whole_layers_(layout_.parameters().size()) {
    if (num_buckets_ == 0) throw ErrorException(ErrorCode::kInvalidArgument, "the model has no parameters");
    if (options.clipping && !(options.clipping->norm > 0)) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("clipping to a norm of {}; more than 0 is needed", options.clipping->norm));
    }
    first_bucket_.resize(layout_.parameters().size(), num_buckets_);
    last_bucket_.resize(layout_.parameters().size(), -1);
    for (int bucket = 0; bucket < num_buckets_; ++bucket) {
      ranges_.push_back(ranges_of(layout_, layout_.buckets()[static_cast<size_t>(bucket)]));
      for (int id : layout_.buckets()[static_cast<size_t>(bucket)].parameters) {
        const auto parameter = static_cast<size_t>(id);
        first_bucket_[parameter] = std::min(first_bucket_[parameter], bucket);
        last_bucket_[parameter] = std::max(last_bucket_[parameter], bucket);
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
    update_ = {.number = numbers.update, .learning_rate = learning_rate};
    run_batch(batch, numbers, /*updates=*/true);
    return finished_report();
  }

  void accumulate(const BatchView& batch, const StepNumbers& numbers) {
    if (accumulated_.data() == nullptr) accumulated_ = FlatBuffer(layout_.size());
    run_batch(batch, numbers, /*updates=*/false);
    add_results();
    if (num_accumulated_++ == 0) first_batch_ = numbers.batch;
    accumulating_ += now();
  }

  StepReport update(const StepNumbers& numbers, double learning_rate) {
    if (num_accumulated_ == 0) throw ErrorException(ErrorCode::kInvalidArgument, "an update without a batch");
    report_ = StepReport{};
    report_.timeline.reductions.resize(static_cast<size_t>(num_buckets_));
    update_ = {.number = numbers.update, .learning_rate = learning_rate};
    numbers_ = numbers;
    gradients_ = accumulated_.data();
    // The replicas have been added to the sums already.
    std::fill(results_.begin(), results_.end(), StepResult{});
    run([this] {
      for (int bucket = 0; bucket < num_buckets_; ++bucket) take_squares(bucket, now());
      put(graph_->decision, 0);
    });
    return finished_report();
  }

  void discard() {
    num_accumulated_ = 0;
    total_ = {};
    not_finite_.clear();
    accumulating_ = {};
  }

  StepResult evaluate(const BatchView& batch) {
    training_ = false;
    const int active = start(batch);
    run([this, active] { put_replicas(active); });
    throw_first_error();
    StepResult total;
    for (const StepResult& result : results_) {
      total.sum_loss += result.sum_loss;
      total.weight += result.weight;
    }
    return total;
  }

  int threads_seen() const {
    const std::lock_guard lock(threads_mutex_);
    return static_cast<int>(threads_.size());
  }

  int peak_gradient_buffers() const { return all_reduce_.peak_buffers(); }

 private:
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

  // Counts down, per bucket, the parameters of one replica that are not final yet.
  class Announcements final : public GradientListener {
   public:
    Announcements(Impl& impl, int replica) : impl_(impl), replica_(replica), seen_(impl.layout_.parameters().size()) {
      for (const Bucket& bucket : impl.layout_.buckets()) left_.push_back(static_cast<int>(bucket.parameters.size()));
    }

    void gradient_final(int id) override {
      if (id < 0 || static_cast<size_t>(id) >= seen_.size()) {
        throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("a gradient was announced for parameter {}", id));
      }
      const auto parameter = static_cast<size_t>(id);
      if (std::exchange(seen_[parameter], uint8_t{1}) != 0) {
        throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("the gradient of '{}' was announced twice",
                                                                      impl_.layout_.parameters()[parameter].name));
      }
      for (int bucket = impl_.first_bucket_[parameter]; bucket <= impl_.last_bucket_[parameter]; ++bucket) {
        if (--left_[static_cast<size_t>(bucket)] == 0) impl_.bucket_final(replica_, bucket);
      }
    }

    void check_complete() const {
      const auto missing = std::count(seen_.begin(), seen_.end(), uint8_t{0});
      if (missing == 0) return;
      const auto first = static_cast<size_t>(std::find(seen_.begin(), seen_.end(), uint8_t{0}) - seen_.begin());
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("no gradient for parameter '{}'{}", impl_.layout_.parameters()[first].name,
                                       missing > 1 ? fmt::format(" and {} more", missing - 1) : std::string()));
    }

   private:
    Impl& impl_;
    int replica_;
    std::vector<uint8_t> seen_;  // by parameter: 1 when announced
    std::vector<int> left_;
  };

  static int thread_count(int threads) {
    if (threads < 0) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} threads; at least 1 is needed", threads));
    }
    if (threads > 0) return threads;
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }

  // Where a replica's error occurred.
  std::string place() const {
    return training_ ? step_name(numbers_.step, numbers_.batch, numbers_.batch) : "in an evaluation";
  }

  // Of the step with all its batches.
  std::string step_place() const {
    return step_name(numbers_.step, num_accumulated_ > 0 ? first_batch_ : numbers_.batch, numbers_.batch);
  }

  std::chrono::nanoseconds now() const { return Clock::now() - begin_; }

  // Splits the batch; returns how many replicas have rows.
  int start(const BatchView& batch) {
    if (batch.rows() < 1) throw ErrorException(ErrorCode::kInvalidArgument, "a batch without rows");
    views_ = distributor_.split(batch);
    std::fill(results_.begin(), results_.end(), StepResult{});
    std::fill(errors_.begin(), errors_.end(), std::nullopt);
    failed_.store(false, std::memory_order_relaxed);
    next_replica_.store(0, std::memory_order_relaxed);
    return static_cast<int>(std::min<int64_t>(batch.rows(), options_.replicas));
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

  // Forward and backward over a batch, its reduction, and, if it is the last of its step, decision and updates.
  void run_batch(const BatchView& batch, const StepNumbers& numbers, bool updates) {
    numbers_ = numbers;
    training_ = true;
    updates_ = updates;
    const int active = start(batch);
    report_.timeline.replicas.assign(static_cast<size_t>(options_.replicas), {});
    report_.timeline.reductions.assign(static_cast<size_t>(num_buckets_), {});
    all_reduce_.begin(active);
    gradients_ = nullptr;  // not known before replica 0 has its buffer
    // Without an update there is nothing to decide: the count stays above 0.
    undecided_.store(num_buckets_ + active + (updates ? 0 : 1), std::memory_order_relaxed);
    run([this, active] { put_replicas(active); });
    all_reduce_.end();
    try {
      throw_first_error();
    } catch (...) {
      discard();
      throw;
    }
  }

  StepReport finished_report() {
    report_.timeline.total = now();
    report_.timeline.accumulating = accumulating_;
    discard();
    return std::move(report_);
  }

  void throw_first_error() {
    // Replicas start in order, so all below the first that failed have run: which error is reported is no accident.
    for (const std::optional<Error>& error : errors_) {
      if (error) throw ErrorException(*error);
    }
  }

  void replica_body(int /*message*/) noexcept {
    // In order, whichever message came first: the lower side of the reduction tree fills first, which keeps few buffers
    // live.
    const int replica = next_replica_.fetch_add(1, std::memory_order_relaxed);
    if (!failed_.load(std::memory_order_relaxed)) {
      try {
        note_thread();
        // While this replica waits for work that it started itself, its thread must not enter another replica.
        oneapi::tbb::this_task_arena::isolate([&] { run_replica(replica); });
      } catch (...) {
        errors_[static_cast<size_t>(replica)] = placed(replica, place(), caught_error());
        failed_.store(true, std::memory_order_relaxed);
      }
    }
  }

  void run_replica(int replica) {
    const auto index = static_cast<size_t>(replica);
    const BatchView& rows = views_[index];
    std::unique_ptr<DeviceWorker> worker = workers_.take();
    if (!training_) {
      results_[index] = worker->evaluate(rows, state_.weights.data());
      workers_.put_back(std::move(worker));
      return;
    }
    report_.timeline.replicas[index].begin = now();
    Announcements announcements(*this, replica);
    results_[index] = worker->train_step(rows, state_.weights.data(),
                                         {.seed = options_.seed,
                                          .batch = numbers_.batch,
                                          .replica = replica,
                                          .gradients = all_reduce_.take_buffer(replica),
                                          .listener = &announcements});
    workers_.put_back(std::move(worker));
    announcements.check_complete();
    report_.timeline.replicas[index].end = now();
    one_less_undecided();
  }

  void bucket_final(int replica, int bucket) {
    const auto begin = now();
    if (!all_reduce_.arrive(replica, bucket)) return;
    const Bucket& range = layout_.buckets()[static_cast<size_t>(bucket)];
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
    take_squares(bucket, begin);
    one_less_undecided();
  }

  void take_squares(int bucket, std::chrono::nanoseconds begin) {
    const auto index = static_cast<size_t>(bucket);
    const Bucket& range = layout_.buckets()[index];
    squares_[index] = sum_of_squares({gradients() + range.begin, static_cast<size_t>(range.end - range.begin)});
    report_.timeline.reductions[index] = {.begin = begin, .end = now()};
  }

  // What the update is made of: the sums over all replicas of all batches.
  float* gradients() { return gradients_ != nullptr ? gradients_ : all_reduce_.result(); }

  void one_less_undecided() {
    if (undecided_.fetch_sub(1, std::memory_order_acq_rel) == 1) put(graph_->decision, 0);
  }

  void decision_body(int /*message*/) noexcept {
    report_.timeline.decision.begin = now();
    decide();
    report_.timeline.decision.end = now();
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
      total_.sum_loss += result.sum_loss;
      total_.weight += result.weight;
      if (not_finite_.empty() && !(std::isfinite(result.sum_loss) && std::isfinite(result.weight))) {
        const bool one_of_many = num_accumulated_ > 0 || !updates_;
        not_finite_ = fmt::format("the loss of replica {}{} is {} (weight {})", replica,
                                  one_of_many ? fmt::format(" in batch {}", numbers_.batch) : std::string(),
                                  result.sum_loss, result.weight);
      }
    }
  }

  void decide() {
    add_results();
    report_.result = total_;
    std::string not_finite = not_finite_;
    double squares = 0;
    for (size_t bucket = 0; bucket < squares_.size(); ++bucket) {
      squares += squares_[bucket];
      if (not_finite.empty() && !std::isfinite(squares)) {
        not_finite = fmt::format("a gradient of {} is not finite", first_not_finite(bucket));
      }
    }
    // A sum without weight is a mean of 0, with a gradient of 0.
    const double one_by_weight = report_.result.weight == 0 ? 0 : 1 / report_.result.weight;
    report_.loss = report_.result.sum_loss * one_by_weight;
    if (report_.result.weight != 0) report_.loss = report_.result.sum_loss / report_.result.weight;
    report_.gradient_norm = std::sqrt(squares) * std::abs(one_by_weight);
    if (!not_finite.empty()) {
      report_.skip_reason = fmt::format("{}: {}; the update was skipped", step_place(), not_finite);
      return;
    }
    if (options_.clipping) {
      report_.clip_scale = clip_scale(report_.gradient_norm, options_.clipping->norm, options_.clipping->form);
    }
    update_.gradient_scale = static_cast<float>(one_by_weight * report_.clip_scale);
    report_.updated = true;
  }

  std::string first_not_finite(size_t bucket) {
    for (const UpdateRange& range : ranges_[bucket]) {
      const float* values = gradients();
      if (std::any_of(values + range.begin, values + range.end, [](float g) { return !std::isfinite(g); })) {
        return fmt::format("'{}'", layout_.parameters()[static_cast<size_t>(range.parameter)].name);
      }
    }
    return "a parameter";
  }

  UpdateBuffers update_buffers() {
    return {.weights = state_.weights.data(), .gradients = gradients(), .slots = slot_data_};
  }

  void direction_body(int bucket) noexcept {
    const auto index = static_cast<size_t>(bucket);
    layer_squares_[index].clear();
    for (const UpdateRange& range : ranges_[index]) {
      layer_squares_[index].push_back(optimizer_.direction(range, update_, update_buffers()));
    }
    if (undirected_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
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
    report_.timeline.updates[index].begin = now();
    for (const UpdateRange& range : ranges_[index]) {
      if (optimizer_.layerwise()) {
        optimizer_.apply(range, update_, update_buffers(), whole_layers_[static_cast<size_t>(range.parameter)]);
      } else {
        optimizer_.update(range, update_, update_buffers());
      }
    }
    report_.timeline.updates[index].end = now();
  }

  void note_thread() {
    const std::lock_guard lock(threads_mutex_);
    threads_.insert(std::this_thread::get_id());
  }

  const Optimizer& optimizer_;
  TrainedState& state_;
  const StepGraphOptions options_;
  const ParameterLayout& layout_;
  const int num_buckets_;
  const Distributor distributor_;
  AllReduce all_reduce_;
  WorkerPool workers_;
  oneapi::tbb::task_arena arena_;
  std::vector<float*> slot_data_;
  std::vector<std::vector<UpdateRange>> ranges_;  // by bucket
  std::vector<int> first_bucket_;                 // by parameter
  std::vector<int> last_bucket_;

  // Of the batches accumulated for the next update.
  FlatBuffer accumulated_;  // made by the first
  int64_t num_accumulated_ = 0;
  int64_t first_batch_ = 0;
  StepResult total_;
  std::string not_finite_;  // the first loss that was not
  std::chrono::nanoseconds accumulating_{0};

  // Of the batch and the step that run.
  bool training_ = true;
  bool updates_ = true;  // the batch is the last of its step
  StepNumbers numbers_;
  float* gradients_ = nullptr;  // the accumulated ones when no batch is the last; else null
  UpdateStep update_;
  Clock::time_point begin_;
  std::vector<BatchView> views_;
  std::vector<StepResult> results_;
  std::vector<std::optional<Error>> errors_;
  std::vector<double> squares_;                           // by bucket
  std::vector<std::vector<LayerSquares>> layer_squares_;  // by bucket and range
  std::vector<LayerSquares> whole_layers_;                // by parameter
  StepReport report_;
  std::atomic<int> next_replica_{0};
  std::atomic<bool> failed_{false};
  std::atomic<int> undecided_{0};   // buckets not reduced and replicas not ended
  std::atomic<int> undirected_{0};  // buckets without a direction

  mutable std::mutex threads_mutex_;
  std::set<std::thread::id> threads_;

  std::optional<Graph> graph_;  // last: it goes before what its bodies use
};

StepGraph::StepGraph(const Model& model, const Optimizer& optimizer, TrainedState& state, StepGraphOptions options,
                     WorkerPool::Make make_worker)
    : impl_(std::make_unique<Impl>(model, optimizer, state, options, std::move(make_worker))) {}

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

int StepGraph::threads_seen() const { return impl_->threads_seen(); }

int StepGraph::peak_gradient_buffers() const { return impl_->peak_gradient_buffers(); }

}  // namespace millrace
