#include "millrace/formats/storage/remote/s3_signature.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::s3_signature_test {
namespace {

using testing::EndsWith;

std::chrono::system_clock::time_point at(std::chrono::sys_days day, int hours, int minutes) {
  return day + std::chrono::hours(hours) + std::chrono::minutes(minutes);
}

using std::chrono::August;
using std::chrono::May;
using std::chrono::year;

std::string authorization_of(HttpRequest request, const AwsCredentials& credentials, const AwsSigning& signing) {
  sign_aws(request, credentials, signing);
  return *request.headers.find("Authorization");
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, the examples whose signed fields are
// the host and x-amz-… alone.
TEST(S3Signature, IsThatOfTheExamplesOfS3) {
  const AwsCredentials credentials{.access_key_id = "AKIAIOSFODNN7EXAMPLE",
                                   .secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  const AwsSigning signing{.region = "us-east-1", .time = at(year(2013) / May / 24, 0, 0)};
  struct Example {
    std::string query;
    std::string signature;
  };
  for (const Example& example :
       {Example{"?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        Example{"?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"}}) {
    HttpRequest request{.url = "https://examplebucket.s3.amazonaws.com/" + example.query};
    request.headers.add("x-amz-content-sha256", std::string(kSha256OfNothing));
    request.headers.add("Range", "bytes=0-9");  // is not signed
    EXPECT_EQ(authorization_of(std::move(request), credentials, signing),
              "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
              "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" +
                  example.signature);
  }
}

// The test suite of Signature Version 4
// (https://github.com/awslabs/aws-c-auth/tree/main/tests/aws-signing-test-suite/v4).
TEST(S3Signature, IsThatOfTheTestSuite) {
  const AwsSigning signing{.region = "us-east-1", .service = "service", .time = at(year(2015) / August / 30, 12, 36)};
  const std::string token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
  const std::string unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  struct Vector {
    std::string name;
    HttpMethod method;
    std::string target;
    std::string token;
    std::string signature;
  };
  for (const Vector& vector :
       {Vector{"get-vanilla", HttpMethod::kGet, "/", "",
               "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
        Vector{"post-vanilla", HttpMethod::kPost, "/", "",
               "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
        Vector{"get-utf8", HttpMethod::kGet, "/%e1%88%b4", "",
               "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
        Vector{"get-vanilla-query-unreserved", HttpMethod::kGet, "/?" + unreserved + "=" + unreserved, "",
               "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
        Vector{"get-vanilla-query-order-encoded", HttpMethod::kGet, "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
               "", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
        Vector{"get-vanilla-with-session-token", HttpMethod::kGet, "/", token,
               "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"}}) {
    const AwsCredentials credentials{.access_key_id = "AKIDEXAMPLE",
                                     .secret_access_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                     .session_token = vector.token};
    HttpRequest request{.method = vector.method, .url = "https://example.amazonaws.com" + vector.target};
    EXPECT_THAT(authorization_of(std::move(request), credentials, signing), EndsWith(", Signature=" + vector.signature))
        << vector.name;
  }
}

// Of a port that is not the scheme's own it is a part of the host.
TEST(S3Signature, CoversThePort) {
  const AwsCredentials credentials{.access_key_id = "a", .secret_access_key = "b"};
  const auto of = [&](const std::string& url) { return authorization_of({.url = url}, credentials, {}); };
  EXPECT_EQ(of("https://h/a"), of("https://h:443/a"));
  EXPECT_NE(of("https://h/a"), of("https://h:444/a"));
  EXPECT_NE(of("http://h/a"), of("http://h:443/a"));
}

}  // namespace
}  // namespace millrace::s3_signature_test
