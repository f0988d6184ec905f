#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "millrace/trainer/parameters.h"

namespace millrace {

/// Adds up the gradients of R replicas bucket by bucket, in a fixed tree: the balanced binary tree over the replica
/// index,
/// `((0+1)+(2+3))+((4+5)+(6+7))` for eight. The sum is therefore the same bit for bit for any number of threads and any
/// timing.
///
/// Groups of at most four replicas that are neighbours are added in one pass over their gradients, by the thread that
/// brings the group's last one, at that moment, while the bucket is still in that core's cache and the rest of that
/// replica's backward pass is still to come. A node above is worked on by the thread that finishes its second child, in
/// the same pass: sums that are read at once are not written down in between. So of gradients of N bytes from eight
/// replicas 8 N are read, half of their sum is written and read again, and the sum is written: 11 N, or 13 N where the
/// halves come at different times. The buffer of a right child, or of a replica of a group but its first, goes back to
/// the pool when its last bucket has been added and its replica has left, so that about threads + 3 + log2(R / 4)
/// buffers are live, not R.
///
/// One step at a time: `begin`, then from the replicas' threads `take_buffer`, `arrive` and `leave`, then from one
/// thread `result` and `end`. No thread waits for another.
///
/// T is float; the double form serves to check gradients.
template <typename T>
class AllReduce {
 public:
  /// `size`: values of a flat buffer. `buckets`: the parts of it that are added up; they must outlive this.
  AllReduce(int64_t size, std::span<const Bucket> buckets, int num_replicas);

  /// Starts a step of which replicas 0 to `num_active` - 1 take part; the others are as if their gradients were 0.
  void begin(int num_active);
  /// The buffer into which the replica writes its gradients: undefined but for the gaps, which are 0.
  std::span<T> take_buffer(int replica);
  /// The replica's bucket is final. Returns true to the one caller whose addition completed the sum over all replicas.
  bool arrive(int replica, int bucket);
  /// The replica writes to its buffer no more. No other replica gets the buffer before that, even when all buckets were
  /// added: a model may still write gradients that are in no bucket, those of frozen parameters.
  void leave(int replica);
  /// The sums over all replicas, once every bucket is complete. Its owner may write to it.
  T* result() { return buffers_[0].data(); }
  /// Gives all buffers back; also after a step that was abandoned, once no replica runs any more.
  void end();

  /// The most buffers that were live at once since the beginning.
  int peak_buffers() const { return peak_buffers_; }

 private:
  struct Node {     // a group, or what is above
    int begin = 0;  // replicas [begin, end); the sum of a node is in the buffer of replica `begin`
    int end = 0;
    int parent = -1;
    int right_begin = 0;  // first replica of the right child
  };
  static constexpr int kMostDepth = 31;  // more replicas than an int counts
  static constexpr int kGroup = 4;       // more would keep more buffers
  // What is complete and not written down yet.
  struct Addends {
    int first = 0;  // replicas of the group, from `first` on, or the one whose buffer holds a sum
    int count = 0;
    std::array<int, kMostDepth> nodes{};  // above them, from the lowest up
    int num_nodes = 0;
  };
  void add_up(int bucket, Addends& addends);
  int add_node(int begin, int end, int parent);
  void one_use_less(int replica);
  void give_back(FlatValues<T> buffer);

  int64_t size_;
  std::span<const Bucket> ranges_;
  int num_replicas_;
  int num_active_ = 0;
  std::vector<Node> nodes_;
  std::vector<int> groups_;                        // node of each replica's group
  std::unique_ptr<std::atomic<uint8_t>[]> came_;   // [node, bucket]: replicas of a group; 1: one child is done
  std::unique_ptr<std::atomic<int>[]> uses_left_;  // [replica]: buckets to be added to another's, and its own use
  std::vector<FlatValues<T>> buffers_;             // [replica], while in use
  std::mutex mutex_;                               // for the pool; taken twice per replica and step
  std::vector<FlatValues<T>> free_;
  int live_ = 0;
  int peak_buffers_ = 0;
};

extern template class AllReduce<float>;
extern template class AllReduce<double>;

/// The sum of squares of `values` in float64, in an order that depends on their number only. Infinite or NaN exactly
/// when a value is (squares of float32 cannot overflow a float64).
double sum_of_squares(std::span<const float> values);

}  // namespace millrace
