"""What a pod's claims ask for, in the order in which data flow:

* `requests` – the claims taken apart, once per pod;
* `problem` – what that means on one node;
* `tables` – which devices pass the tests that nothing in the call can change;
* `result` – what was found, as an AllocationResult.
"""
