#include "buoy/edit.h"
#include "buoy/error.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <limits>
#include <numeric>

using namespace buoy;
using namespace buoy::test;

namespace {

ModelInfo two_layers() {
    ModelInfo info;
    info.n_layer = 2;
    info.n_head  = 2;
    return info;
}

const std::vector<Region> some_regions = {{"bos", {{0, 1}}}, {"doc", {{2, 4}, {6, 7}}}, {"answer", {{8, 12}}}};

AttentionEditor editor_of(const std::vector<std::string> & texts) {
    std::vector<EditSpec> specs;
    for (const std::string & text : texts) {
        specs.push_back(parse_edit(text));
    }
    return {std::move(specs), two_layers(), some_regions, 12, 4};
}

// A pass over [from, to).
ForwardRequest pass(int32_t from, int32_t to, KvUse kv = KvUse::none) {
    ForwardRequest request;
    request.kv = kv;
    request.positions.resize(static_cast<size_t>(to - from));
    request.tokens.resize(request.positions.size());
    std::iota(request.positions.begin(), request.positions.end(), from);
    return request;
}

// Received attention of 12 columns, the same in both heads: one much larger than the others.
std::vector<float> peak_at(size_t peak, size_t n = 12) {
    std::vector<float> received(2 * n, 0.01f);
    received[peak] = received[n + peak] = 0.9f;
    return received;
}

std::vector<int32_t> up_to(int32_t n) {
    std::vector<int32_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

void check_refused(const std::string & text, const std::string & culprit) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(editor_of({text}), doctest::Contains(culprit.c_str()), Error);
}

} // namespace

TEST_CASE("sinks: above mean + epsilon deviations of the population") {
    // 11 columns of 0 and one of 1: mean 1/12, deviation sqrt(11)/12, so the peak is sqrt(11) = 3.317 deviations above
    std::vector<float> received(12, 0.0f);
    received[5] = 1.0f;
    CHECK(find_sinks(received.data(), 1, 12, 3.0f) == std::vector<size_t>{5});
    CHECK(find_sinks(received.data(), 1, 12, 3.31f) == std::vector<size_t>{5});
    CHECK(find_sinks(received.data(), 1, 12, 3.32f).empty());
    const std::vector<float> flat(12, 0.25f);
    CHECK(find_sinks(flat.data(), 1, 12, 0.0f).empty());
    CHECK(find_sinks(flat.data(), 1, 0, 3.0f).empty());
}

TEST_CASE("sinks: a column counts with its mean over heads") {
    // head 0 peaks at 3, head 1 at 7 three times as high; only 7 stands out of the mean
    std::vector<float> received(2 * 40, 0.0f);
    received[3]      = 0.2f;
    received[40 + 7] = 1.0f;
    CHECK(find_sinks(received.data(), 2, 40, 3.0f) == std::vector<size_t>{7});
}

TEST_CASE("editor: fixed keys become one edit per layer, in the steps asked for") {
    AttentionEditor editor  = editor_of({"drop keys=0,doc layers=1 heads=0 steps=1-2"});
    ForwardRequest  request = pass(0, 12);
    editor.prepare(0, request);
    CHECK(request.edits.empty());
    request = pass(0, 12);
    editor.prepare(1, request);
    REQUIRE(request.edits.size() == 1);
    CHECK(request.edits[0].layer == 1);
    CHECK(request.edits[0].heads == std::vector<int32_t>{0});
    CHECK(request.edits[0].queries.empty());
    CHECK(request.edits[0].keys == std::vector<int32_t>{0, 2, 3, 6});
    CHECK(request.edits[0].bias == -std::numeric_limits<float>::infinity());
    CHECK(observer(request).probed.empty());
    request.edits.clear();
    editor.prepare(2, request);
    CHECK(request.edits.size() == 1);
    request = pass(0, 12);
    editor.prepare(3, request);
    CHECK(request.edits.empty());
    CHECK(editor.uses()[0].n_places == 2);
    CHECK(editor.uses()[0].n_keys == 8);
}

TEST_CASE("editor: keys and queries that are not there make no edit") {
    AttentionEditor editor  = editor_of({"bias keys=10 +1", "bias keys=0 queries=answer -2", "bias keys=1 +0"});
    ForwardRequest  request = pass(0, 8, KvUse::store); // a prompt of eight
    editor.prepare(0, request);
    CHECK(request.edits.empty());
    request = pass(8, 9, KvUse::store);
    editor.prepare(1, request);
    REQUIRE(request.edits.size() == 2);
    CHECK(request.edits[0].queries == std::vector<int32_t>{8});
    CHECK(request.edits[1].bias == -2.0f);
    request = pass(10, 11, KvUse::store);
    editor.prepare(2, request);
    CHECK(request.edits.size() == 4);
    CHECK(editor.uses()[2].n_places == 0);
}

TEST_CASE("editor: with stored keys a short pass reaches all of them") {
    AttentionEditor editor  = editor_of({"bias keys=11 +1"});
    ForwardRequest  request = pass(0, 12, KvUse::store);
    editor.prepare(0, request);
    request = pass(4, 8, KvUse::store);
    editor.prepare(1, request);
    CHECK(request.edits.size() == 2);
    ForwardRequest whole; // without positions they are 0, 1, …
    whole.tokens.resize(11);
    AttentionEditor other = editor_of({"bias keys=10- +1"});
    other.prepare(0, whole);
    REQUIRE(whole.edits.size() == 2);
    CHECK(whole.edits[0].keys == std::vector<int32_t>{10});
}

TEST_CASE("editor: sinks are found in the pass, layer by layer, and joined with the other keys") {
    AttentionEditor editor  = editor_of({"drop keys=sinks,2 layers=0", "bias keys=5 layers=1 +1"});
    ForwardRequest  request = pass(0, 12);
    editor.prepare(0, request);
    CHECK(observer(request).probed == std::vector<int32_t>{0});
    REQUIRE(request.edits.size() == 1);
    CHECK(request.edits[0].layer == 1);
    REQUIRE(observer(request).probe);
    const std::vector<AttentionEdit> edits = observer(request).probe(0, up_to(12), peak_at(7).data());
    REQUIRE(edits.size() == 1);
    CHECK(edits[0].layer == 0);
    CHECK(edits[0].keys == std::vector<int32_t>{2, 7});
    CHECK(editor.uses()[0].n_keys == 2);

    AttentionEditor none = editor_of({"drop keys=sinks"});
    request              = pass(0, 12);
    none.prepare(0, request);
    CHECK(observer(request).probed == std::vector<int32_t>{0, 1});
    CHECK(observer(request).probe(0, up_to(12), std::vector<float>(24, 0.1f).data()).empty());
    CHECK(none.uses()[0].n_places == 0);
}

TEST_CASE("editor: a sink is named by its position, not its column") {
    AttentionEditor      editor    = editor_of({"drop keys=sinks"});
    ForwardRequest       request   = pass(0, 12);
    std::vector<int32_t> positions = up_to(11);
    positions.push_back(15);
    editor.prepare(0, request);
    CHECK(observer(request).probe(1, positions, peak_at(11).data())[0].keys == std::vector<int32_t>{15});
}

TEST_CASE("editor: anchors are found in their step and used behind it, each layer its own") {
    AttentionEditor editor  = editor_of({"bias keys=anchors@1 +4.0 steps=0-2"});
    ForwardRequest  request = pass(0, 12);
    editor.prepare(0, request);
    CHECK(observer(request).probed.empty());
    CHECK(request.edits.empty());
    request = pass(0, 12);
    editor.prepare(1, request);
    CHECK(observer(request).probed == std::vector<int32_t>{0, 1});
    CHECK(observer(request).probe(0, up_to(12), peak_at(3).data()).empty());
    CHECK(observer(request).probe(1, up_to(12), peak_at(9).data()).empty());
    request = pass(0, 12);
    editor.prepare(2, request);
    CHECK(observer(request).probed.empty());
    CHECK_FALSE(observer(request).probe);
    REQUIRE(request.edits.size() == 2);
    CHECK(request.edits[0].keys == std::vector<int32_t>{3});
    CHECK(request.edits[1].keys == std::vector<int32_t>{9});
    CHECK(request.edits[1].bias == 4.0f);
    request = pass(0, 12);
    editor.prepare(3, request);
    CHECK(request.edits.empty());
}

TEST_CASE("editor: a layer without anchors is left as it is") {
    AttentionEditor editor  = editor_of({"bias keys=anchors@0 +4.0"});
    ForwardRequest  request = pass(0, 12);
    editor.prepare(0, request);
    CHECK(observer(request).probe(0, up_to(12), peak_at(3).data()).empty());
    CHECK(observer(request).probe(1, up_to(12), std::vector<float>(2 * 12, 0.25f).data()).empty());
    request = pass(0, 12);
    editor.prepare(1, request);
    REQUIRE(request.edits.size() == 1); // the largest of columns that are alike is no anchor
    CHECK(request.edits[0].layer == 0);
    CHECK(editor.uses()[0].n_places == 1);
}

TEST_CASE("editor: goes before what the parameters call already") {
    AttentionEditor editor = editor_of({"drop keys=0"});
    GenerateParams  params;
    size_t          n_seen = 0;
    params.on_forward      = [&](int32_t, ForwardRequest & request) { n_seen = request.edits.size(); };
    editor.attach(params);
    ForwardRequest request = pass(0, 12);
    params.on_forward(0, request);
    CHECK(n_seen == 2);
}

TEST_CASE("comparison: changed positions, and confidences of what both runs scored") {
    Generation a, b;
    a.sequence = {1, 2, 3, 4};
    b.sequence = {1, 9, 3, 8, 7};
    a.steps.resize(2);
    b.steps.resize(2);
    a.steps[1].step = b.steps[1].step = 1;
    a.steps[0].confidence             = {{1, 0.5f}, {3, 0.25f}};
    a.steps[1].confidence             = {{3, 0.5f}};
    b.steps[0].confidence             = {{1, 0.75f}, {2, 1.0f}};
    b.steps[1].confidence             = {{3, 0.25f}};
    const EditComparison c            = compare_runs(a, b);
    CHECK(c.n_changed == 3);
    CHECK(c.first_changed == 1);
    CHECK(c.n_scored == 2); // (0, 1) and (1, 3)
    CHECK(c.confidence_unedited == 0.5);
    CHECK(c.confidence_edited == 0.5);
    CHECK(c.confidence_change == 0.25);
    const EditComparison same = compare_runs(a, a);
    CHECK(same.n_changed == 0);
    CHECK(same.first_changed == -1);
    CHECK(same.confidence_change == 0.0);
}

TEST_CASE("editor: what is not there is refused, by name") {
    check_refused("drop keys=12", "there is no position 12, expected 0 to 11");
    check_refused("drop keys=0 queries=4-12", "position 12");
    check_refused("drop keys=0 layers=2", "there is no layer 2, expected 0 to 1");
    check_refused("drop keys=0 heads=0-2", "there is no head 2, expected 0 to 1");
    check_refused("drop keys=0 steps=4-", "there is no step 4, expected 0 to 3");
    check_refused("bias keys=anchors@4 +1", "there is no step 4");
    check_refused("drop keys=docs", "there is no region 'docs', the regions are bos, doc, answer");
    check_refused("drop keys=0 queries=dox", "'dox'");
}
