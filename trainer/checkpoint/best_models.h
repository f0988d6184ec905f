#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

/// A model that was kept for what an evaluation said of it.
struct BestModel {
  int64_t step = 0;       ///< after which it was evaluated
  double value = 0;       ///< of the metric; finite
  std::string path = {};  ///< its directory
};

/// The models in the folder of a `BestModels`, the best first: for another process, also while the training goes on. A
/// model that falls off the list is removed; whoever wants to keep one copies it. A folder that does not exist holds
/// none. Throws `kIo` or `kParse` naming the file, as for a model of an earlier version, which does not say its value,
/// and `kInvalidArgument` where models are of several metrics.
std::vector<BestModel> best_models_in(const std::string& folder);

/// Which of two values of a metric is the better one.
enum class Better {
  kLower,   ///< a loss
  kHigher,  ///< an accuracy
};

/// What is said, and for a `loss` that nothing is said of, kLower. Throws `kInvalidArgument` for another metric: the
/// wrong guess would keep the worst models.
Better better_of(const std::string& metric, std::optional<Better> said);

/// The n best models of a training by one metric: a folder with a directory for each, `step-00000120` for the model
/// after 120 steps.
///
///     BestModels best("out/best", {.keep = 2, .metric = "accuracy", .better = Better::kHigher}, "7a40");  // our id
///     best.offer(120, 0.87, [&](const std::string& directory) { save_model(directory); });
///
/// A directory is written under a temporary name and renamed; the one that falls off the list is then removed. Of equal
/// values the earlier one is the better. A value that is not finite is never among the best.
///
/// A checkpoint holds the list (`best.json`: metric, direction, and of each model step, value and directory) and
/// the models in it, as hard links where the file system has them, which cost no space while the model is in the folder
/// too. Beside each model stands what its evaluation said (`evaluation.json`: metric, direction, step and value), so
/// that another process finds the best one (`best_models_in`). So a training that goes on from any checkpoint has the
/// models of its list, whatever a killed run has left in the folder, and also in another folder: the first `offer` or
/// `save_into` brings the folder to the list, an empty list with its first model. Each model holds the id of its
/// training (`training.id`), and only those of the same training are ever removed or replaced. One thread at a time,
/// and one process per folder.
class BestModels {
 public:
  struct Options {
    int keep = 1;                       ///< Default: 1
    std::string metric = "loss";        ///< what the values are of. Default: loss
    std::optional<Better> better = {};  ///< Default: none, see `better_of`
    /// Models of another training in the folder are removed by the first `offer` or `save_into`. Default: false, they
    /// are refused
    bool replace_others = false;
  };
  /// Writes a model into the directory that it is given.
  using Write = std::function<void(const std::string& directory)>;

  /// Throws `kInvalidArgument` for an empty path or metric, fewer than 1 to keep, and as `better_of`. The folder is
  /// made by the first `offer`. `training`: the id of the training whose models these are.
  BestModels(std::string folder, Options options, std::string training);

  /// Throws `kInvalidArgument` naming the folder when it holds models of another training, or of none that is known:
  /// so a training can refuse before its first step what its first `offer` would refuse.
  void check_folder() const;

  /// Keeps the model if it is among the best; `write` is called only then. One of the same step is replaced. Returns
  /// whether it was kept. Throws `kIo` naming the file that could not be written, and what `check_folder` does.
  bool offer(int64_t step, double value, const Write& write);

  /// The best first. A model that somebody has taken out of the folder is off the list with the next `offer` or
  /// `save_into`.
  const std::vector<BestModel>& models() const { return models_; }

  /// Writes list and models into a checkpoint's directory. Throws as `offer`.
  void save_into(const std::string& checkpoint);
  /// Goes on with the list of a checkpoint of the training of this id, the best of it when fewer are to be kept now;
  /// one without a list starts an empty one. Throws `kIo` or `kParse` naming the file, and `kInvalidArgument` when the
  /// list is of another metric or direction, or gone while models are there; nothing has changed then.
  void resume(const std::string& checkpoint, std::string training);
  /// List and models of a checkpoint into the directory of one that comes after it, for a training that keeps no best
  /// models for a while. Nothing happens when there is no list. Throws `kIo` naming the file.
  static void carry_over(const std::string& from_checkpoint, const std::string& to_checkpoint);

 private:
  std::vector<std::string> directories() const;
  void settle();
  void remove_unlisted();

  std::string folder_;
  Options options_;
  std::string training_;
  std::vector<BestModel> models_;
  std::string resumed_from_;       // a checkpoint with a list; empty: none
  bool settled_ = false;           // the folder holds what is on the list
  bool removed_unlisted_ = false;  // and nothing else
};

}  // namespace millrace
