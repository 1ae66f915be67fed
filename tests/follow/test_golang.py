"""Facts from Go source."""

from __future__ import annotations

from tools.follow.golang import constants, structs

SOURCE = """package v1

// DeviceTaint is described here.
type DeviceTaint struct {
	metav1.TypeMeta `json:",inline"`

	// A comment in prose, not about the next field.

	// Keys of the list.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +featureGate=DRADeviceTaints
	Items []Item `json:"items,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,3,rep,name=items"`
	// +required
	Effect  Effect `json:"effect" protobuf:"bytes,1,name=effect,casttype=Effect"`
	Hidden string `json:"-"`
}

const (
	KeyLength = 63
	Name featuregate.Feature = "DRAThing"
	Other = "plain"
)
"""


def test_fields_are_read_with_their_numbers_and_tags_whatever_stands_between() -> None:
    fields = structs(SOURCE)["DeviceTaint"]
    items = fields["items"]
    assert (items.go, items.number, items.omitempty) == ("[]Item", 3, True)
    assert items.value("listType") == "map"
    assert "optional" in items.tags
    assert (fields["effect"].number, fields["effect"].omitempty, fields["effect"].tags) == (1, False, ("required",))


def test_embedded_structs_are_listed_by_their_type_and_hidden_fields_not_at_all() -> None:
    fields = structs(SOURCE)["DeviceTaint"]
    assert fields["metav1.TypeMeta"].json == ""
    assert set(fields) == {"metav1.TypeMeta", "items", "effect"}


def test_string_constants_are_read_with_and_without_a_type() -> None:
    assert constants(SOURCE) == {"Name": "DRAThing", "Other": "plain"}
