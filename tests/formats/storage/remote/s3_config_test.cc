#include "millrace/formats/storage/remote/s3_config.h"

#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/s3_error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::s3_config_test {
namespace {

using testing::HasSubstr;

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string url_of(const S3Options& options, const std::string& bucket, std::map<std::string, std::string> set = {}) {
  const S3Config config = resolve_s3(options, environment(std::move(set)));
  return s3_bucket_url(config, bucket, config.options.region);
}

TEST(S3Config, NamesTheHostOfABucket) {
  EXPECT_EQ(url_of({.region = "eu-west-1"}, "bucket"), "https://bucket.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(url_of({.region = "cn-north-1"}, "bucket"), "https://bucket.s3.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(url_of({}, "bucket"), "https://bucket.s3.amazonaws.com");
  EXPECT_EQ(url_of({.region = "eu-west-1"}, "a.b"), "https://s3.eu-west-1.amazonaws.com/a.b");
  EXPECT_EQ(url_of({.region = "eu-west-1"}, "Old_Bucket"), "https://s3.eu-west-1.amazonaws.com/Old_Bucket");
  EXPECT_EQ(url_of({.region = "eu-west-1", .path_style = true}, "bucket"), "https://s3.eu-west-1.amazonaws.com/bucket");
  EXPECT_EQ(url_of({.endpoint = "http://host:9000/"}, "bucket"), "http://host:9000/bucket");
  EXPECT_EQ(url_of({.endpoint = "https://host/s3", .path_style = false}, "bucket"), "https://bucket.host/s3");
}

TEST(S3Config, TakesWhatTheOptionsLeaveOpenFromTheEnvironment) {
  EXPECT_EQ(url_of({}, "bucket", {{"AWS_ENDPOINT_URL", "http://a"}}), "http://a/bucket");
  EXPECT_EQ(url_of({}, "bucket", {{"AWS_ENDPOINT_URL", "http://a"}, {"AWS_ENDPOINT_URL_S3", "http://b"}}),
            "http://b/bucket");
  EXPECT_EQ(url_of({.endpoint = "http://c"}, "bucket", {{"AWS_ENDPOINT_URL_S3", "http://b"}}), "http://c/bucket");
  EXPECT_EQ(url_of({}, "bucket", {{"AWS_DEFAULT_REGION", "us-west-2"}}), "https://bucket.s3.us-west-2.amazonaws.com");
  EXPECT_EQ(url_of({}, "bucket", {{"AWS_DEFAULT_REGION", "us-west-2"}, {"AWS_REGION", "us-east-2"}}),
            "https://bucket.s3.us-east-2.amazonaws.com");
  const S3Config config =
      resolve_s3({}, environment({{"AWS_NO_SIGN_REQUEST", "YES"}, {"AWS_REQUEST_PAYER", "requester"}}));
  EXPECT_TRUE(config.options.anonymous);
  EXPECT_TRUE(config.options.requester_pays);
  EXPECT_FALSE(resolve_s3({}, environment({{"AWS_NO_SIGN_REQUEST", "no"}})).options.anonymous);
}

TEST(S3Config, TakesWhatTheEnvironmentLeavesOpenFromTheProfile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("config");
  std::ofstream(path) << "[default]\nregion = eu-north-1\n"
                         "[profile own]\nregion = eu-south-1\nendpoint_url = http://all\nservices = s\n"
                         "[services s]\ns3 =\n  endpoint_url = http://one\n";
  const auto with = [&](std::map<std::string, std::string> set) {
    set["AWS_CONFIG_FILE"] = path;
    return set;
  };
  EXPECT_EQ(url_of({}, "bucket", with({})), "https://bucket.s3.eu-north-1.amazonaws.com");
  EXPECT_EQ(url_of({}, "bucket", with({{"AWS_REGION", "us-east-2"}})), "https://bucket.s3.us-east-2.amazonaws.com");
  EXPECT_EQ(url_of({}, "bucket", with({{"AWS_PROFILE", "own"}})), "http://one/bucket");
  EXPECT_EQ(url_of({.profile = "own"}, "bucket", with({})), "http://one/bucket");
  EXPECT_EQ(url_of({}, "bucket", with({{"AWS_PROFILE", "own"}, {"AWS_ENDPOINT_URL", "http://env"}})),
            "http://env/bucket");
  EXPECT_EQ(resolve_s3({.profile = "own"}, environment(with({}))).options.region, "eu-south-1");
  EXPECT_THROW((void)resolve_s3({.profile = "none"}, environment(with({}))), ErrorException);
}

TEST(S3Config, FindsRegionsOfAwsAlone) {
  EXPECT_TRUE(resolve_s3({}, environment({})).finds_region);
  EXPECT_FALSE(resolve_s3({.region = "eu-west-1"}, environment({})).finds_region);
  const S3Config own = resolve_s3({.endpoint = "http://host"}, environment({}));
  EXPECT_FALSE(own.finds_region);
  EXPECT_EQ(own.options.region, "us-east-1");
  EXPECT_EQ(resolve_s3({.endpoint = "https://0a1b.r2.cloudflarestorage.com"}, environment({})).options.region, "auto");
}

// Of a VPC, FIPS and dual stack: their names say the region, and credentials of the instance are good there.
TEST(S3Config, KnowsTheEndpointsOfAws) {
  const struct {
    const char* endpoint;
    const char* region;
  } cases[] = {{"https://s3.eu-west-1.amazonaws.com", "eu-west-1"},
               {"https://s3.dualstack.eu-west-1.amazonaws.com", "eu-west-1"},
               {"https://s3-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"},
               {"https://s3-eu-west-1.amazonaws.com", "eu-west-1"},
               {"https://s3.cn-north-1.amazonaws.com.cn", "cn-north-1"},
               {"https://bucket.vpce-1a2b3c4d-5e6f.s3.us-east-2.vpce.amazonaws.com", "us-east-2"},
               {"https://s3.amazonaws.com", "us-east-1"}};
  for (const auto& c : cases) {
    const S3Config config = resolve_s3({.endpoint = c.endpoint}, environment({}));
    EXPECT_TRUE(config.is_aws) << c.endpoint;
    EXPECT_FALSE(config.finds_region) << c.endpoint;
    EXPECT_EQ(config.options.region, c.region) << c.endpoint;
    EXPECT_EQ(s3_bucket_url(config, "b", c.region), std::string(c.endpoint) + "/b");
  }
  EXPECT_EQ(resolve_s3({.endpoint = cases[0].endpoint, .region = "us-west-2"}, environment({})).options.region,
            "us-west-2");
  EXPECT_FALSE(resolve_s3({.endpoint = "https://s3.eu-west-1.amazonaws.com.example"}, environment({})).is_aws);
}

TEST(S3Config, RefusesWhatCannotBe) {
  const auto error_of = [](const S3Options& options, std::map<std::string, std::string> set = {}) {
    try {
      (void)resolve_s3(options, environment(std::move(set)));
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kInvalidArgument);
      return exception.error().message;
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_of({}, {{"AWS_ENDPOINT_URL", "host:9000"}}),
            "AWS_ENDPOINT_URL: 'host:9000' is no URL of http or https");
  EXPECT_THAT(error_of({.endpoint = "http://host:99999"}), HasSubstr("names no host and port"));
  EXPECT_THAT(error_of({.endpoint = "http://:80"}), HasSubstr("names no host and port"));
  EXPECT_THAT(error_of({.endpoint = "http://host/?a"}), HasSubstr("has a query"));
  const std::string of_user = error_of({.endpoint = "http://user:password@host"});
  EXPECT_THAT(of_user, HasSubstr("may name no user or password"));
  EXPECT_EQ(of_user.find("user:password"), std::string::npos);
  EXPECT_THAT(error_of({.region = "eu-west-1.evil.example/"}), HasSubstr("is no name of a region"));
}

TEST(S3Config, KnowsWhoMaySeeASignature) {
  const S3Config aws = resolve_s3({}, environment({}));
  const std::string from = "https://b.s3.amazonaws.com/k";
  EXPECT_TRUE(may_redirect_s3(aws, from, "https://b.s3-us-west-2.amazonaws.com/k"));
  EXPECT_FALSE(may_redirect_s3(aws, from, "http://b.s3-us-west-2.amazonaws.com/k"));
  EXPECT_FALSE(may_redirect_s3(aws, from, "https://amazonaws.com.evil.example/k"));
  EXPECT_FALSE(may_redirect_s3(aws, from, "https://evilamazonaws.com/k"));
  const S3Config own = resolve_s3({.endpoint = "http://a:1", .redirect_hosts = {"B"}}, environment({}));
  EXPECT_TRUE(may_redirect_s3(own, "http://a:1/b/k", "http://A:2/b/k"));
  EXPECT_TRUE(may_redirect_s3(own, "http://a:1/b/k", "http://b:3/b/k"));
  EXPECT_FALSE(may_redirect_s3(own, "http://a:1/b/k", "http://b.s3.amazonaws.com/k"));
}

TEST(HttpEngine, TakesCertificatesFromTheFirstFileThatIsNamed) {
  EXPECT_EQ(ca_file_in(environment({})), "");
  EXPECT_EQ(ca_file_in(environment({{"SSL_CERT_FILE", "c"}})), "c");
  EXPECT_EQ(ca_file_in(environment({{"SSL_CERT_FILE", "c"}, {"CURL_CA_BUNDLE", "b"}})), "b");
  EXPECT_EQ(ca_file_in(environment({{"AWS_CA_BUNDLE", "a"}, {"CURL_CA_BUNDLE", "b"}})), "a");
}

TEST(S3Config, ReadsErrorsOfS3) {
  const auto parse = [](std::string body, HttpHeaders headers = {}) {
    return parse_s3_error({.head = {.status = 400, .headers = std::move(headers)}, .body = std::move(body)});
  };
  const S3Error error = parse(
      "<?xml version=\"1.0\"?>\n<Error><Code>AuthorizationHeaderMalformed</Code><Message>a &amp; b</Message>"
      "<Region>eu-west-1</Region><RequestId>0A1B</RequestId></Error>");
  EXPECT_EQ(error.code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(error.message, "a & b");
  EXPECT_EQ(error.region, "eu-west-1");
  EXPECT_EQ(error.request_id, "0A1B");
  EXPECT_EQ(parse("<html><Error>").code, "");
  HttpHeaders headers;
  headers.add("X-Amz-Bucket-Region", "us-west-2");
  EXPECT_EQ(parse("", headers).region, "us-west-2");
}

TEST(ObjectUrl, HasTheKeyAsItStands) {
  const ObjectUrl url = parse_object_url("s3://my-bucket.1//a/../b?c#d%20 e");
  EXPECT_EQ(url.scheme, "s3");
  EXPECT_EQ(url.bucket, "my-bucket.1");
  EXPECT_EQ(url.key, "/a/../b?c#d%20 e");
  EXPECT_EQ(url.to_string(), "s3://my-bucket.1//a/../b?c#d%20 e");
  EXPECT_EQ(parse_object_url("s3://b").key, "");
  EXPECT_EQ(percent_encoded(url.key, "/"), "/a/../b%3Fc%23d%2520%20e");
  for (const char* refused : {"s3:b/c", "s3:///k", "s3://-b/k", "s3://a@b/k", "s3://a:1/k", "s3://a%2f/k"}) {
    EXPECT_THROW((void)parse_object_url(refused), ErrorException) << refused;
  }
  EXPECT_EQ(percent_decoded("a%2Bb+c%4", true), "a+b c%4");
  EXPECT_EQ(percent_decoded("%e2%82%ac%zz%"), "\xe2\x82\xac%zz%");
}

TEST(ObjectUrl, TakesUrlsOfHttpApart) {
  const HttpUrl url = parse_http_url("https://example.org:8443/a/b?c=d?e#f");
  EXPECT_EQ(url.origin, "https://example.org:8443");
  EXPECT_EQ(url.host, "example.org");
  EXPECT_EQ(url.host_field, "example.org:8443");
  EXPECT_EQ(url.path, "/a/b");
  EXPECT_EQ(url.query, "c=d?e");
  EXPECT_EQ(parse_http_url("http://[::1]:80?x").host_field, "[::1]");
  for (const char* refused : {"ftp://a", "http://", "http://a:0", "http://a:x", "http://a b/", "http://u@h/"}) {
    EXPECT_THROW((void)parse_http_url(refused), ErrorException) << refused;
  }
}

}  // namespace
}  // namespace millrace::s3_config_test
