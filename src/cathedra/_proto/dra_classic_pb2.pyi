from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodePrepareResourceRequest(_message.Message):
    __slots__ = ("namespace", "claim_uid", "claim_name", "resource_handle", "structured_resource_handle")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_UID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim_uid: str
    claim_name: str
    resource_handle: str
    structured_resource_handle: _containers.RepeatedCompositeFieldContainer[StructuredResourceHandle]
    def __init__(self, namespace: _Optional[str] = ..., claim_uid: _Optional[str] = ..., claim_name: _Optional[str] = ..., resource_handle: _Optional[str] = ..., structured_resource_handle: _Optional[_Iterable[_Union[StructuredResourceHandle, _Mapping]]] = ...) -> None: ...

class NodePrepareResourceResponse(_message.Message):
    __slots__ = ("cdi_devices",)
    CDI_DEVICES_FIELD_NUMBER: _ClassVar[int]
    cdi_devices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cdi_devices: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeUnprepareResourceRequestV1alpha1(_message.Message):
    __slots__ = ("namespace", "claim_uid", "claim_name", "cdi_devices")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_UID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    CDI_DEVICES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim_uid: str
    claim_name: str
    cdi_devices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., claim_uid: _Optional[str] = ..., claim_name: _Optional[str] = ..., cdi_devices: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeUnprepareResourceRequest(_message.Message):
    __slots__ = ("namespace", "claim_uid", "claim_name", "resource_handle", "structured_resource_handle")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_UID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim_uid: str
    claim_name: str
    resource_handle: str
    structured_resource_handle: _containers.RepeatedCompositeFieldContainer[StructuredResourceHandle]
    def __init__(self, namespace: _Optional[str] = ..., claim_uid: _Optional[str] = ..., claim_name: _Optional[str] = ..., resource_handle: _Optional[str] = ..., structured_resource_handle: _Optional[_Iterable[_Union[StructuredResourceHandle, _Mapping]]] = ...) -> None: ...

class NodeUnprepareResourceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Claim(_message.Message):
    __slots__ = ("namespace", "uid", "name", "resource_handle", "structured_resource_handle")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    uid: str
    name: str
    resource_handle: str
    structured_resource_handle: _containers.RepeatedCompositeFieldContainer[StructuredResourceHandle]
    def __init__(self, namespace: _Optional[str] = ..., uid: _Optional[str] = ..., name: _Optional[str] = ..., resource_handle: _Optional[str] = ..., structured_resource_handle: _Optional[_Iterable[_Union[StructuredResourceHandle, _Mapping]]] = ...) -> None: ...

class NodePrepareResourcesRequest(_message.Message):
    __slots__ = ("claims",)
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    def __init__(self, claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ...) -> None: ...

class NodePrepareResourcesResponse(_message.Message):
    __slots__ = ("claims",)
    class ClaimsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: PreparedClaim
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[PreparedClaim, _Mapping]] = ...) -> None: ...
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.MessageMap[str, PreparedClaim]
    def __init__(self, claims: _Optional[_Mapping[str, PreparedClaim]] = ...) -> None: ...

class PreparedClaim(_message.Message):
    __slots__ = ("cdi_devices", "error")
    CDI_DEVICES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    cdi_devices: _containers.RepeatedScalarFieldContainer[str]
    error: str
    def __init__(self, cdi_devices: _Optional[_Iterable[str]] = ..., error: _Optional[str] = ...) -> None: ...

class NodeUnprepareResourcesRequest(_message.Message):
    __slots__ = ("claims",)
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    def __init__(self, claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ...) -> None: ...

class NodeUnprepareResourcesResponse(_message.Message):
    __slots__ = ("claims",)
    class ClaimsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: UnpreparedClaim
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[UnpreparedClaim, _Mapping]] = ...) -> None: ...
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.MessageMap[str, UnpreparedClaim]
    def __init__(self, claims: _Optional[_Mapping[str, UnpreparedClaim]] = ...) -> None: ...

class UnpreparedClaim(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class StructuredResourceHandle(_message.Message):
    __slots__ = ("vendor_class_parameters", "vendor_claim_parameters", "node_name", "results")
    VENDOR_CLASS_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    VENDOR_CLAIM_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    vendor_class_parameters: RawExtension
    vendor_claim_parameters: RawExtension
    node_name: str
    results: _containers.RepeatedCompositeFieldContainer[DriverAllocationResult]
    def __init__(self, vendor_class_parameters: _Optional[_Union[RawExtension, _Mapping]] = ..., vendor_claim_parameters: _Optional[_Union[RawExtension, _Mapping]] = ..., node_name: _Optional[str] = ..., results: _Optional[_Iterable[_Union[DriverAllocationResult, _Mapping]]] = ...) -> None: ...

class DriverAllocationResult(_message.Message):
    __slots__ = ("vendor_request_parameters", "allocation_result_model")
    VENDOR_REQUEST_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_RESULT_MODEL_FIELD_NUMBER: _ClassVar[int]
    vendor_request_parameters: RawExtension
    allocation_result_model: AllocationResultModel
    def __init__(self, vendor_request_parameters: _Optional[_Union[RawExtension, _Mapping]] = ..., allocation_result_model: _Optional[_Union[AllocationResultModel, _Mapping]] = ...) -> None: ...

class AllocationResultModel(_message.Message):
    __slots__ = ("named_resources",)
    NAMED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    named_resources: NamedResourcesAllocationResult
    def __init__(self, named_resources: _Optional[_Union[NamedResourcesAllocationResult, _Mapping]] = ...) -> None: ...

class NamedResourcesAllocationResult(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RawExtension(_message.Message):
    __slots__ = ("raw",)
    RAW_FIELD_NUMBER: _ClassVar[int]
    raw: bytes
    def __init__(self, raw: _Optional[bytes] = ...) -> None: ...
